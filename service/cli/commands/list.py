"""`muster list`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import rich_click as click

from service.cli.completing import complete_queues
from service.cli.printer import Cell, Column
from service.cli.session import Session, pass_session, print_options
from service.cli.spans import between, instant
from service.cli.styles import status_cell
from service.clock import SystemClock
from service.domain.status import Status

if TYPE_CHECKING:
    from datetime import datetime

    from service.client.groups import GroupBrief

_COLUMNS = (
    Column("id"),
    Column("name", is_cut=True),
    Column("status"),
    Column("queue", is_cut=True),
    Column("pos", align="right"),
    Column("members", align="right"),
    Column("gpus", align="right"),
    Column("waited", align="right"),
    Column("ran", align="right"),
)

#: From so many columns on there is room for whole ids, and for how many members are in each status.
_WHOLE_IDS, _WHOLE_COUNTS = 110, 150

_STATUS = click.Choice([each.value for each in Status], case_sensitive=False)


@click.command(name="list")
@click.option("--queue", "-q", shell_complete=complete_queues, help="Only of this queue.")
@click.option("--status", "-s", "statuses", multiple=True, type=_STATUS, help="Only in one of these.")
@click.option("--owner", help="Only of this user.")
@click.option("--name", help="Only with this name.")
@click.option("--label", "-l", "labels", multiple=True, metavar="NAME=VALUE", help="Only with this label.")
@click.option("--waiting", "-w", is_flag=True, help="What waits, in the order in which it is considered.")
@click.option("--limit", "-n", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@print_options
@pass_session
def list_groups(
    session: Session,
    *,
    queue: str | None,
    statuses: tuple[str, ...],
    owner: str | None,
    name: str | None,
    labels: tuple[str, ...],
    waiting: bool,
    limit: int,
) -> None:
    """List groups, the newest first.

    Of an elastic group that runs, members and GPUs are what it holds of what it could have: 4/8. Where each
    member is on its own, so many of all are in the group's status; a wide terminal lists the others. In a
    pipe: id, name, status, queue, position, members, GPUs, the instants of submit, admission and end, and the
    members and GPUs that an elastic group holds, apart by tabs.
    """
    with session.client() as client:
        found = client.list_groups(
            queue=queue,
            statuses=statuses,
            owner=owner,
            name=name,
            labels=dict(_label(text) for text in labels),
            is_waiting=waiting,
        )
        groups = list(islice(found, limit + 1))
    shown, has_more = groups[:limit], len(groups) > limit
    out = session.out
    if out.is_json:
        out.json({"groups": shown, "has_more": has_more})
    elif out.is_terminal:
        now = SystemClock().now()
        out.table(_COLUMNS, [_cells(group, now, width=out.width) for group in shown])
        out.note("" if shown else "There are no groups.")
    else:
        out.table((), [_fields(group) for group in shown])
    # Who reads a pipe must not take a part for all.
    out.note(f"There are more than {limit}; --limit shows them." if has_more else "")


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--label")
    return name, value


def _cells(group: GroupBrief, now: datetime, *, width: int) -> list[Cell]:
    if group.id is None:
        return [("another owner's", "dim"), "", "", group.queue, _position(group), *_wanted(group), "", ""]
    return [
        group.id if width >= _WHOLE_IDS else group.id[-12:],
        group.name or "",
        status_cell(group.status),
        group.queue,
        _position(group),
        *_size(group, width=width),
        between(group.submitted_at, group.admitted_at or group.ended_at or now),
        between(group.admitted_at, group.ended_at or now) if group.admitted_at else "",
    ]


def _position(group: GroupBrief) -> str:
    return "" if group.position is None else str(group.position)


def _size(group: GroupBrief, *, width: int) -> tuple[str, str]:
    members, gpus = _wanted(group)
    if group.scheduling == "independent" and group.units and len(group.units) > 1:
        if width >= _WHOLE_COUNTS:
            members = " ".join(f"{count} {status}" for status, count in group.units.items())
        else:
            members = f"{group.units.get(group.status or '', 0)}/{members}"
    return members, gpus


def _wanted(group: GroupBrief) -> tuple[str, str]:
    """Members and GPUs; of an elastic group that has some, those before what it could have."""
    members, gpus = str(group.wanted_members), str(group.wanted_gpus)
    if group.size is None or not group.size.present_members:
        return members, gpus
    return f"{group.size.present_members}/{members}", f"{group.size.present_gpus}/{gpus}"


def _fields(group: GroupBrief) -> list[Cell]:
    """A number in each column that has any, whatever a table for people says."""
    size = group.size
    return [
        group.id or "-",
        group.name or "-",
        group.status or "-",
        group.queue,
        _position(group) or "-",
        str(group.wanted_members),
        str(group.wanted_gpus),
        instant(group.submitted_at) or "-",
        instant(group.admitted_at) or "-",
        instant(group.ended_at) or "-",
        *(["-", "-"] if size is None else [str(size.present_members), str(size.present_gpus)]),
    ]
