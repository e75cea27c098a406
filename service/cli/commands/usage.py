"""`muster usage`: who used how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from service.cli.completing import complete_queues
from service.cli.printer import Cell, Column
from service.cli.session import Session, pass_session, print_options
from service.cli.spans import number

if TYPE_CHECKING:
    from service.client.usage import Usage, UsageEntry

_COLUMNS = (
    Column("queue", is_cut=True),
    Column("user", is_cut=True),
    Column("resource"),
    Column("held now", align="right"),
    Column("hours", align="right"),
    Column("lost", align="right"),
    Column("counts", align="right"),
)
#: Hours that show.
_LEAST = 0.005
_NAMES = {"cpus": "CPUs", "memory_gib": "GiB"}


@click.command()
@click.option("--queue", shell_complete=complete_queues, help="Of this queue alone.")
@click.option("--user", help="Of this user alone; what others used is for operators.")
@click.option("--tenant", help="Of the users of this tenant alone.")
@click.option("--resource", metavar="NAME", help="A GPU model, cpus or memory_gib.")
@click.option("--all", "has_all", is_flag=True, help="CPUs and memory, too.")
@print_options
@pass_session
def usage(
    session: Session,
    /,
    *,
    queue: str | None,
    user: str | None,
    tenant: str | None,
    resource: str | None,
    has_all: bool,
) -> None:
    """Show who used how much: GPU-hours, by queue, user and model.

    LOST is the part of the hours that the platform lost; nobody is charged for it. COUNTS is what is over
    and still counts when queues are ordered.
    """
    with session.client() as client:
        found = client.usage(queue=queue, tenant=tenant, user=user, resource=resource)
    out = session.out
    if out.is_json:
        out.json(found)
        return
    shown = [each for each in found.usage if has_all or resource or each.resource not in _NAMES]
    out.table(_COLUMNS, _rows(shown))
    out.note(_told(found, shown))


def _rows(entries: list[UsageEntry]) -> list[list[Cell]]:
    return [
        [
            each.queue,
            f"{each.tenant}/{each.user}",
            _NAMES.get(each.resource, each.resource),
            number(each.held_now) if each.held_now else "-",
            _hours(each.hours),
            (_hours(each.lost_hours), "red") if each.lost_hours >= _LEAST else "-",
            _hours(each.decayed_hours),
        ]
        for each in entries
    ]


def _hours(hours: float) -> str:
    return f"{hours:.2f}" if hours >= _LEAST else "-"


def _told(found: Usage, shown: list[UsageEntry]) -> str:
    if not shown:
        return "Nothing was used yet."
    if found.half_life is None:
        return "What is over does not count: there is no half-life."
    return f"What is over counts half after {found.half_life}."
