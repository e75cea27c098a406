"""`muster receipts`: who gave way to whom."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import rich_click as click

from service.cli.completing import complete_groups
from service.cli.printer import Column
from service.cli.references import find_group_id
from service.cli.session import Session, pass_session, print_options
from service.cli.spans import clock_time
from service.clock import SystemClock

if TYPE_CHECKING:
    from datetime import datetime

    from service.client.preemptions import Preemption

_COLUMNS = (
    Column("decided"),
    Column("victim"),
    Column("of queue"),
    Column("claimant"),
    Column("of queue"),
    Column("by"),
    Column("lost", align="right"),
    Column("outcome", is_whole=False),
)


@click.command()
@click.argument("group", required=False, shell_complete=complete_groups)
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many.")
@print_options
@pass_session
def receipts(session: Session, *, group: str | None, limit: int) -> None:
    """List who gave way to whom, the newest first: of GROUP, on either side, or of all.

    By priority within a queue, by reclaim of nominal quota, or by fair share. An operator sees all, others
    those of their own groups.
    """
    with session.client() as client:
        group_id = None if group is None else find_group_id(client, group)
        found = list(islice(client.preemptions.list(group=group_id), limit))
    if session.is_json:
        session.out.json({"preemptions": found})
        return
    now = SystemClock().now()
    session.out.table(_COLUMNS, [_row(each, now) for each in found])
    session.out.note("" if found else "Nobody gave way.")


def _row(receipt: Preemption, now: datetime) -> list[str]:
    outcome = receipt.outcome or "waiting"
    return [
        clock_time(receipt.decided_at, today=now),
        receipt.victim or "-",
        receipt.victim_queue or "-",
        receipt.claimant or "-",
        receipt.claimant_queue or "-",
        receipt.entitlement,
        f"{receipt.lost_gpu_seconds:.0f} GPU-s",
        outcome if receipt.outcome_cause is None else f"{outcome}: {receipt.outcome_cause}",
    ]
