"""`muster show`: one group with its members and its record."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import rich_click as click

from service.cli.completing import complete_groups
from service.cli.outcomes import ENDLESS, describe_claim, describe_end, describe_places
from service.cli.printer import Cell, Column
from service.cli.references import find_group_id
from service.cli.session import Session, pass_session, print_options
from service.cli.spans import clock_time, instant, number, span
from service.cli.styles import has_ended, status_cell
from service.clock import SystemClock
from service.domain.status import Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from service.client.events import Event
    from service.client.groups import Gpu, Group, Role
    from service.client.members import Member

_MEMBERS = (
    Column("member", align="right"),
    Column("role"),
    Column("status"),
    Column("node"),
    Column("gpus"),
    Column("attempt", align="right"),
    Column("exit", align="right"),
    Column("message", is_whole=False),
)
_EVENTS = (Column("at"), Column("event"), Column("member", align="right"), Column("about", is_whole=False))
#: More members than this are counted and not listed.
_LISTED = 32
_LAST_EVENTS = 20
#: Of an event's data: of no use to its reader, or said by its instant or its message.
_SAID_ELSEWHERE = frozenset({"cycle", "epoch", "ended_at", "target", "claimant", "first_index", "last_index"})


@click.command()
@click.argument("group", shell_complete=complete_groups)
@click.option("--members", "-m", "all_members", is_flag=True, help="List all members, however many.")
@click.option("--events", "-e", "all_events", is_flag=True, help="Show the whole record.")
@print_options
@pass_session
def show(session: Session, *, group: str, all_members: bool, all_events: bool) -> None:
    """Show what GROUP asked for, where it stands, its members and what happened to it."""
    with session.client() as client:
        found = client.get(find_group_id(client, group))
        most = None if all_members else _LISTED
        members = list(islice(client.members(found.id).list(), most))
        events = list(client.events(found.id).list())
    out = session.out
    if out.is_json:
        out.json({"group": found, "members": members, "events": events})
        return
    now = SystemClock().now()
    for label, cell in _facts(found, now, is_short=out.is_terminal):
        out.pair(label, cell)
    out.heading(_members_title(found, len(members)))
    out.table(_MEMBERS, [_member(member) for member in members])
    shown = events if all_events else events[-_LAST_EVENTS:]
    out.heading("Events" if len(shown) == len(events) else f"Last {len(shown)} of {len(events)} events")
    out.table(_EVENTS, [_event(event, now, is_short=out.is_terminal) for event in shown])


def _facts(group: Group, now: datetime, *, is_short: bool) -> Iterator[tuple[str, Cell]]:
    """What there is to say, label by label; nothing that is not set."""

    def at(instant_at: datetime | None) -> str:
        if instant_at is None:
            return ""
        if not is_short:
            return instant(instant_at)
        return f"{clock_time(instant_at, today=now)} ({span((now - instant_at).total_seconds())} ago)"

    facts: list[tuple[str, Cell]] = [
        ("group", f"{group.name}  {group.id}"),
        ("status", _status(group)),
        ("held", _held(group)),
        ("queue", _queue(group)),
        ("owner", f"{group.owner} of {group.tenant}"),
        ("places", describe_places(group)),
        ("kept for it", describe_claim(group, now)),
        *((f"role {role.name}", _role(role)) for role in group.roles),
        ("elastic", _elastic(group)),
        ("topology", _topology(group)),
        ("limits", _limits(group)),
        ("recovery", _recovery(group)),
        ("after", ", ".join(f"{each.group} ({each.when})" for each in group.after)),
        ("not before", instant(group.not_before_at) if group.not_before_at else ""),
        ("labels", ", ".join(f"{name}={value}" for name, value in group.labels.items())),
        ("submitted", at(group.submitted_at)),
        ("admitted", at(group.admitted_at)),
        ("running", at(group.running_at)),
        ("ended", at(group.ended_at)),
        ("backs off", f"until {clock_time(group.backoff_until, today=now)}" if group.backoff_until else ""),
    ]
    return ((label, cell) for label, cell in facts if cell)


def _held(group: Group) -> str:
    return "`muster release` lets it go on" if group.is_held and not has_ended(group.status) else ""


def _status(group: Group) -> Cell:
    text, style = status if isinstance(status := status_cell(group.status), tuple) else (status, "")
    if group.scheduling == "independent" and len(group.units) > 1:
        text += f"  ({', '.join(f'{count} {name}' for name, count in group.units.items())})"
    if has_ended(group.status):
        text += f" {describe_end(group)}"
    elif group.message:
        text += f": {group.message}"
    return text, style


def _queue(group: Group) -> str:
    position = "" if group.position is None else f", position {group.position}"
    return f"{group.queue}{position}, priority {group.priority}"


def _role(role: Role) -> str:
    requests = role.requests
    amounts = [f"{requests.gpus} GPU"] if requests.gpus else []
    amounts += [f"{number(requests.cpus)} CPU", f"{number(requests.memory_gib)} GiB"]
    needs = [_models(role.gpu)] if role.gpu.models else []
    needs += [f"GPUs of {role.gpu.min_memory_gib} GiB"] if role.gpu.min_memory_gib else []
    needs += [f"{name}={value}" for name, value in role.node_labels.items()]
    needs += [f"one {role.slice.level} for each {role.slice.size}"] if role.slice else []
    on = f" on {', '.join(needs)}" if needs else ""
    count = str(role.count) if role.min_count == role.count else f"{role.min_count} to {role.count}"
    return f"{count} × ({', '.join(amounts)}){on}: {' '.join(role.command)}"


def _models(gpu: Gpu) -> str:
    if not gpu.fallback_after_seconds:
        return " or ".join(gpu.models)
    after = gpu.fallback_after_seconds
    later = (f"{model} after {span(after * number)}" for number, model in enumerate(gpu.models[1:], start=1))
    return ", or ".join((gpu.models[0], *later))


def _elastic(group: Group) -> str:
    if group.elastic is None:
        return ""
    how = {
        "at_start": "its size is chosen at its start",
        "while_running": "it grows and shrinks while it runs, where its launcher can",
    }
    has = f"{group.present_members}/{group.wanted_members} members held" if group.places else ""
    least = f"at least {sum(role.min_count for role in group.roles)}"
    parts = (has, least, how.get(group.elastic.resize, group.elastic.resize))
    return ", ".join(part for part in parts if part)


def _topology(group: Group) -> str:
    met = {True: " (it is)", False: " (it is not)", None: ""}[group.is_preference_met]
    parts = [
        f"within one {group.topology_required}" if group.topology_required else "",
        f"preferably within one {group.topology_preferred}{met}" if group.topology_preferred else "",
    ]
    return ", ".join(part for part in parts if part)


def _limits(group: Group) -> str:
    parts = [
        ("time limit", group.time_limit_seconds),
        ("start timeout", group.start_timeout_seconds),
        ("grace", group.grace_seconds),
    ]
    given = [f"{name} {span(seconds)}" for name, seconds in parts if seconds is not None]
    if group.time_limit_seconds is None:
        given.insert(0, ENDLESS)
    return ", ".join(given)


def _recovery(group: Group) -> str:
    rule = group.recovery
    return (
        f"{rule.on_member_loss}, {group.restarts_used} of {rule.max_restarts} restarts used,"
        f" backoff {span(rule.backoff_seconds)}"
    )


def _members_title(group: Group, listed: int) -> str:
    members = group.present_members or group.wanted_members
    if listed < members:
        return f"First {listed} of {members} members (-m lists all)"
    return "Members"


def _member(member: Member) -> list[Cell]:
    return [
        str(member.member),
        member.role,
        status_cell(member.status),
        member.node or "-",
        ",".join(map(str, member.devices)) or "-",
        str(member.attempt) if member.generation in {None, 1} else f"{member.attempt}.{member.generation}",
        "-" if member.exit_code is None else str(member.exit_code),
        member.message or "",
    ]


def _event(event: Event, now: datetime, *, is_short: bool) -> list[Cell]:
    data = dict(event.data or {})
    member = data.pop("member", None) if event.member is None else event.member
    cause = "" if event.cause == event.kind else event.cause or ""
    about = [cause, event.node or "", "" if event.actor in {None, "muster"} else f"by {event.actor}"]
    about += [str(data.pop("message", ""))]
    about += [f"{name}={value}" for name, value in data.items() if name not in _SAID_ELSEWHERE]
    kind: Cell = status_cell(event.kind) if event.kind in set(Status) else event.kind
    return [
        clock_time(event.at, today=now) if is_short else instant(event.at),
        kind,
        "" if member is None else str(member),
        ", ".join(part for part in about if part),
    ]
