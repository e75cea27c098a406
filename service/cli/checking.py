"""Say what would come of groups, without submitting them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click

from service.cli import exits
from service.cli.outcomes import describe_reason, list_places
from service.cli.printer import Cell, Column, Printer
from service.cli.spans import clock_time
from service.clock import SystemClock
from service.domain.reasons import Code

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.cli.files import GroupFile
    from service.client import Client
    from service.client.checks import Check

dry_run_option = click.option(
    "--dry-run", "is_dry_run", is_flag=True, help="Say what would come of it, and submit nothing."
)

_COLUMNS = (Column("group"), Column("would"), Column("", is_whole=False))
_STYLES = {"admit": "green", "wait": "yellow", "refuse": "bold red"}


def check_groups(client: Client, file: GroupFile, out: Printer) -> int:
    """Ask for each group as if it alone were submitted, and return the exit code."""
    checks = [_check(client, file, position) for position, _ in enumerate(file.groups)]
    if out.is_json:
        out.json({"checks": checks} if file.is_batch else checks[0])
    else:
        rows = list(_rows(file.groups, checks))
        out.table(_COLUMNS, rows)
        out.note("Nothing was submitted (dry run).")
    return exits.REFUSED if any(check.would == "refuse" for check in checks) else exits.OK


def _check(client: Client, file: GroupFile, position: int) -> Check:
    """Whom of its file the group waits for is not there to be asked about: it waits at any rate."""
    group = file.groups[position]
    after = group.get("after")
    if not file.is_batch or not isinstance(after, list):
        return client.check(group)
    own = [each for each in after if isinstance(each, dict) and each.get("batch_index") in range(position)]
    if not own:
        return client.check(group)
    check = client.check({**group, "after": [each for each in after if each not in own]})
    return check if check.would == "refuse" else _waiting(check, [file.groups[e["batch_index"]] for e in own])


def _waiting(check: Check, others: Sequence[Mapping[str, Any]]) -> Check:
    """The same for a group for which these have to end first."""
    from msgspec.structs import replace

    from service.client.explanations import Reason

    names = ", ".join(str(each.get("name", "a group without a name")) for each in others)
    reason = Reason(
        code=Code.DEPENDENCY_PENDING,
        message=f"waits for {names} of the same file",
        need=len(others),
        have=None,
        limit=None,
        scope={},
        holders=[],
        other_holders=0,
        since=None,
        cycle_id=None,
    )
    reasons = [reason, *check.reasons]
    return replace(check, would="wait", places=[], reasons=reasons, position=None, planned_start_at=None)


def _rows(groups: Sequence[Mapping[str, Any]], checks: Sequence[Check]) -> Iterator[Sequence[Cell]]:
    """One line for each thing to say: of a group that waits for several, several."""
    for group, check in zip(groups, checks, strict=True):
        for said in _sentences(check):
            yield str(group.get("name", "")), (check.would, _STYLES.get(check.would, "")), said


def _sentences(check: Check) -> Iterator[str]:
    if check.would == "refuse":
        yield from [f"{each.field}: {each.message}" for each in check.errors] or [check.detail or ""]
        return
    if check.places:
        begins = "" if check.would == "admit" else "part of it "
        yield f"{begins}on {list_places(check.places)}"
    elif check.would == "admit":
        yield "at once"
    for reason in check.reasons:
        yield f"{reason.code}: {describe_reason(reason, SystemClock().now())}"
    if check.position is not None:
        yield f"position {check.position}{_planned(check)}"


def _planned(check: Check) -> str:
    if check.planned_start_at is None:
        return ""
    return f", planned to start by {clock_time(check.planned_start_at, today=SystemClock().now())}"
