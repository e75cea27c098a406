"""The case that Muster exists for, shown twice: `make demo`.

usage: python -m examples.demo

Part 1 hands out GPUs process by process, on simulated processes. Part 2 gives the same groups to Muster,
which runs them as real processes on a private stack that is gone afterwards. Every sentence of the summary
is checked against what was recorded.

Exit code: 0 all claims hold · 1 one does not, or the stack failed · 130 Ctrl-C.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from examples.demo import process_by_process, whole_groups
from examples.demo.arrivals import count_stuck, interleaved
from examples.demo.both_ways import comparison
from examples.demo.claims import Claim, claims_table
from examples.demo.private_stack import private_folder, private_stack, processes_of
from examples.demo.screen import Screen
from examples.demo.submitted import GPUS, RANKS, STEPS, TASKS
from service.cli.stopping import stop_on_signals
from service.client import ClientError
from workers.stack import StackFailed

_FRAME_SECONDS = 0.3
_ORDERS = 1000


def main() -> int:
    stop_on_signals()
    screen = Screen()
    try:
        return _run(screen)
    except KeyboardInterrupt:
        screen.say("Stopped; nothing is left running.")
        return 130
    except (StackFailed, ClientError) as error:
        screen.complain(f"The demo failed: {error}")
        return 1


def _run(screen: Screen) -> int:
    screen.say(
        f"One node with {GPUS} GPUs. Two gangs, A and B, of {RANKS} ranks with one GPU each: a synchronous "
        f"training of {STEPS} steps that cannot take one with a rank missing. {TASKS} tasks with one GPU "
        "that need nobody. All of it is submitted together."
    )
    before = _process_by_process(screen)
    with private_folder() as folder:
        after = _whole_groups(screen, folder)
        left = processes_of(folder)
    return _sum_up(screen, before, after, left)


def _process_by_process(screen: Screen) -> process_by_process.Outcome:
    pause = functools.partial(time.sleep, _FRAME_SECONDS) if screen.is_live else _no_pause
    with screen.part("1  Process by process (simulated processes, simulated clock)"):
        outcome = process_by_process.run(interleaved(), screen.show, pause)
    screen.say(
        "  Every GPU is handed out and nobody moves: both gangs wait for ranks that never get a GPU. That is "
        f"no bad luck: of {_ORDERS} random orders of the same requests {count_stuck(_ORDERS, seed=1)} end so."
    )
    return outcome


def _no_pause() -> None:
    """Without a terminal nobody watches."""


def _whole_groups(screen: Screen, folder: Path) -> whole_groups.Outcome:
    screen.say()
    screen.say("Starting a private Muster with its own PostgreSQL and Valkey ...", "dim")
    with (
        private_stack(folder) as stack,
        stack.client() as client,
        screen.part("2  Muster (real processes)"),
    ):
        return whole_groups.run(client, folder, screen.show)


def _sum_up(
    screen: Screen, before: process_by_process.Outcome, after: whole_groups.Outcome, left: Sequence[str]
) -> int:
    own = [
        *after.claims(),
        Claim("the private Muster is stopped, and no process of it is left", not left, ", ".join(left)),
    ]
    screen.heading("Both ways")
    screen.print(comparison(before, after))
    for title, claims in (("Process by process:", before.claims()), ("Muster:", own)):
        screen.say()
        screen.say(f"  {title}", "bold")
        screen.print(claims_table(claims))
    screen.say()
    failed = sum(not claim.is_true for claim in (*before.claims(), *own))
    count = len(own) + len(before.claims())
    if failed:
        screen.say(f"{failed} of {count} claims FAILED.", "bold red")
        return 1
    screen.say(f"All {count} claims were checked and hold.", "bold green")
    return 0


if __name__ == "__main__":
    sys.exit(main())
