"""The two parts side by side."""

from __future__ import annotations

from rich.table import Table

from examples.demo import process_by_process, whole_groups
from examples.demo.submitted import GANGS, GPUS, TASKS


def comparison(before: process_by_process.Outcome, after: whole_groups.Outcome) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 4, 0, 0))
    table.add_column("  ")
    table.add_column("process by process")
    table.add_column("Muster")
    gangs = len(GANGS)
    for name, one, other in (
        ("GPUs handed out", f"{before.handed_out} of {GPUS}", f"{after.handed_out} of {GPUS}"),
        ("gangs that progressed", f"{before.progressing} of {gangs}", f"{after.progressed} of {gangs}"),
        ("training steps taken", str(sum(before.steps.values())), str(sum(after.steps.values()))),
        ("tasks done", f"{before.tasks_done} of {TASKS}", f"{after.tasks_done} of {TASKS}"),
        ("all done after", "never", f"{after.seconds:.0f} s"),
    ):
        table.add_row(f"  {name}", one, other)
    return table
