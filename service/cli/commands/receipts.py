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
    Column("group"),
    Column("queue", is_cut=True),
    Column("share", align="right"),
    Column("then", align="right"),
    Column("by"),
    Column("lost", align="right"),
)


@click.command()
@click.argument("group", required=False, shell_complete=complete_groups)
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many.")
@print_options
@pass_session
def receipts(session: Session, *, group: str | None, limit: int) -> None:
    """List who gave way to whom, the newest first: of GROUP, on either side, or of all.

    By priority within a queue, by reclaim of nominal quota, or by fair share; a whole group, or so many
    members as an elastic one could spare. With the shares of both queues before (SHARE) and after (THEN).
    LOST is what it cost: what the GPUs that were given up had done since the group's start, as no checkpoint
    is known, and its restart. An operator sees all, others those of their own groups.
    """
    with session.client() as client:
        group_id = None if group is None else find_group_id(client, group)
        found = list(islice(client.preemptions.list(group=group_id), limit))
    if session.is_json:
        session.out.json({"preemptions": found})
        return
    now = SystemClock().now()
    if session.out.is_terminal:
        rows = [row for each in found for row in _rows(each, now)]
        session.out.table(_COLUMNS if found else (), rows)
    else:
        session.out.table((), [_fields(each, now) for each in found])
    session.out.note("" if found else "Nobody gave way.")


def _rows(receipt: Preemption, now: datetime) -> list[list[str]]:
    """Who gave way, below it how much of it if not all, and for whom."""
    before, after = receipt.shares_before, receipt.shares_after
    extent = _extent(receipt)
    return [
        [
            clock_time(receipt.decided_at, today=now),
            _short(receipt.victim),
            receipt.victim_queue or "-",
            _share(before.victim),
            _share(after.victim),
            receipt.entitlement,
            f"{receipt.lost_gpu_seconds:.0f} GPU-s",
        ],
        *([["", f"only {extent}", *[""] * 5]] if extent else []),
        [
            "",
            f"for {_short(receipt.claimant)}",
            receipt.claimant_queue or "-",
            _share(before.claimant),
            _share(after.claimant),
            _outcome(receipt),
            "",
        ],
    ]


def _fields(receipt: Preemption, now: datetime) -> list[str]:
    return [
        clock_time(receipt.decided_at, today=now),
        receipt.victim or "-",
        receipt.victim_queue or "-",
        receipt.claimant or "-",
        receipt.claimant_queue or "-",
        receipt.entitlement,
        f"{receipt.lost_gpu_seconds:.0f} GPU-s",
        _outcome(receipt),
        _extent(receipt) or "all of it",
    ]


def _extent(receipt: Preemption) -> str:
    """How much of a group gave way, if that is not all of it."""
    members = receipt.victim_members
    return "" if members is None else f"{members} member{'s' if members > 1 else ''}"


def _short(group: str | None) -> str:
    """As `muster list` shows an id; whose it is not to be told is somebody else's."""
    return "another's" if group is None else group[-12:]


def _share(share: float | str) -> str:
    return "\N{INFINITY}" if share == "infinite" else f"{float(share):.2f}"


def _outcome(receipt: Preemption) -> str:
    outcome = receipt.outcome or "waiting"
    return outcome if receipt.outcome_cause is None else f"{outcome}: {receipt.outcome_cause}"
