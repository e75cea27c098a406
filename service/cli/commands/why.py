"""`muster why`: position and reasons of a group that waits, or does not grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import rich_click as click

from service.cli.completing import complete_groups
from service.cli.outcomes import (
    ENDLESS,
    describe_claim,
    describe_end,
    describe_forecast,
    describe_guard,
    describe_places,
    describe_reason,
)
from service.cli.printer import Cell, Column, Printer
from service.cli.references import find_group_id
from service.cli.session import Session, pass_session, print_options
from service.cli.spans import clock_time, instant, span
from service.cli.styles import has_ended, status_cell
from service.client.errors import ApiError
from service.clock import SystemClock

if TYPE_CHECKING:
    from datetime import datetime

    from service.client import Client
    from service.client.explanations import Forecast, Position, Reason
    from service.client.groups import Group

#: So many holders of a reason are named.
_NAMED = 3


@click.command()
@click.argument("group", shell_complete=complete_groups)
@print_options
@pass_session
def why(session: Session, *, group: str) -> None:
    """Say where GROUP stands and everything that it waits for, or that keeps it from growing.

    The first reason is the one to look at. In a pipe: code, need, have, limit, since and message, apart by
    tabs, one line for each reason.
    """
    out = session.out
    with session.client() as client:
        found = client.get(find_group_id(client, group))
        position = client.position(found.id)
        explanation = client.reasons(found.id)
        forecast = client.forecast(found.id)
        if out.is_json:
            out.json({"position": position, "reasons": explanation.reasons, "forecast": forecast})
        elif not out.is_terminal:
            out.table((), [_fields(reason) for reason in explanation.reasons])
        else:
            names = _names(client, explanation.reasons)
            _show(out, found, position, forecast, explanation.reasons, names)


def _show(
    out: Printer,
    group: Group,
    position: Position,
    forecast: Forecast,
    reasons: Sequence[Reason],
    names: Mapping[str, str],
) -> None:
    now = SystemClock().now()
    out.pair("group", f"{group.name}  {group.id}")
    out.pair("status", _status(group, now))
    out.pair("asks for", _size(group))
    if position.is_waiting:
        out.pair("position", _position(position, now))
        if kept := describe_claim(group, now):
            out.pair("kept for it", kept)
        if guard := describe_guard(position, now):
            out.pair("guard", guard)
        out.pair("likely start", describe_forecast(forecast, now))
    elif not reasons:
        return
    out.line("")
    _show_reasons(out, _title(group), reasons, names, now)


def _title(group: Group) -> str:
    """What its reasons answer."""
    if has_ended(group.status):
        return "why it ended"
    return "why it waits" if group.is_waiting else "why it does not grow"


def _show_reasons(
    out: Printer, title: str, reasons: Sequence[Reason], names: Mapping[str, str], now: datetime
) -> None:
    columns = (Column(""), Column(title), Column("", is_whole=False), Column("for", align="right"))
    rows: list[Sequence[Cell]] = []
    for number, reason in enumerate(reasons, start=1):
        style = "bold yellow" if number == 1 else "yellow"
        since = span((now - reason.since).total_seconds()) if reason.since else ""
        rows.append((str(number), (reason.code, style), describe_reason(reason, now), since))
        if holders := _holders(reason, names):
            rows.append(("", "", (holders, "dim"), ""))
    out.table(columns, rows)


def _status(group: Group, now: datetime) -> Cell:
    cell = status_cell(group.status)
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    if has_ended(group.status):
        return f"{text} {describe_end(group)}", style
    if not group.is_waiting:
        return f"{text} {describe_places(group)}; it does not wait", style
    waits = span((now - group.submitted_at).total_seconds())
    if len(group.units) > 1:
        counts = ", ".join(f"{count} {status}" for status, count in group.units.items())
        return f"{text} ({counts}), submitted {waits} ago", style
    return f"{text}, submitted {waits} ago", style


def _size(group: Group) -> str:
    """How much it asks for; of an elastic group from its least to its most."""
    least, fewest = group.wanted_members, group.wanted_gpus
    if group.elastic:
        least = sum(role.min_count for role in group.roles)
        fewest = sum(role.min_count * role.requests.gpus for role in group.roles)
    members = f"{_from_to(least, group.wanted_members)} member{'' if group.wanted_members == 1 else 's'}"
    gpus = f"{_from_to(fewest, group.wanted_gpus)} GPU{'' if group.wanted_gpus == 1 else 's'} in all"
    how = "placed together or not at all" if group.scheduling == "gang" else "each as soon as it fits"
    limit = f"; {ENDLESS}" if group.time_limit_seconds is None else ""
    return f"{members}, {gpus}, {how}; priority {group.priority}{limit}"


def _from_to(least: int, most: int) -> str:
    return str(most) if least == most else f"{least} to {most}"


def _position(position: Position, now: datetime) -> Cell:
    as_of = f" (unchanged since {clock_time(position.as_of, today=now)})" if position.as_of else ""
    if position.position is None:
        return f"none in {position.queue}: it may not start now{as_of}", ""
    overall = "" if position.overall_position is None else f", {position.overall_position} overall"
    start = position.planned_start_at
    planned = "" if start is None else f", planned to start by {clock_time(start, today=now)}"
    return (
        f"{position.position} of {position.queue_length} in {position.queue}{overall}{planned}{as_of}",
        "bold",
    )


def _holders(reason: Reason, names: Mapping[str, str]) -> str:
    """Who holds what it waits for, or stands before it."""
    named = [names[holder] for holder in reason.holders if holder in names]
    others = len(reason.holders) - len(named) + reason.other_holders
    if others:
        named.append(f"{others} more" if named else f"{others} group{'' if others == 1 else 's'} of others")
    return f"by {', '.join(named)}" if named else ""


def _names(client: Client, reasons: Sequence[Reason]) -> dict[str, str]:
    names: dict[str, str] = {}
    for reason in reasons:
        for holder in reason.holders[:_NAMED]:
            if holder not in names:
                try:
                    names[holder] = f"{client.get(holder).name} ({holder})"
                except ApiError:
                    # It has been dropped since the cycle.
                    continue
    return names


def _fields(reason: Reason) -> list[Cell]:
    numbers = ["-" if number is None else str(number) for number in (reason.need, reason.have, reason.limit)]
    return [reason.code, *numbers, instant(reason.since) or "-", reason.message]
