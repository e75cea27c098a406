"""One line about a group: what it waits for, where it runs, how it ended."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from service.cli.spans import between, clock_time, span
from service.client.errors import ClientError
from service.clock import SystemClock
from service.domain.status import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.client import Client
    from service.client.explanations import Forecast, Position, Reason
    from service.client.groups import Group, GroupPlace


def describe_end(group: Group) -> str:
    """How long it took, and why it did not succeed."""
    ran = between(group.admitted_at, group.ended_at)
    after = f"after {ran}" if ran else ""
    if group.status == Status.SUCCEEDED:
        return after
    which = "" if group.failed_member is None else f"member {group.failed_member}"
    cause = "" if group.cause == group.status else group.cause or ""
    message = group.message or ""
    # Said behind the status: "Cancelled by alice", not "Cancelled cancelled by alice".
    said = f"{group.status.lower()} "
    if message.startswith(said):
        return ", ".join(part for part in (message.removeprefix(said), cause, which, after) if part)
    return ", ".join(part for part in (cause, which, after, message) if part)


def describe_places(group: Group) -> str:
    """Its nodes with the GPUs that it holds there."""
    notes = [f"on {list_places(group.places)}"] if group.places else []
    if group.attempt is not None and group.attempt > 1:
        notes.append(f"attempt {group.attempt}")
    if group.generation is not None and group.generation > 1:
        notes.append(f"generation {group.generation}")
    if group.is_unreachable:
        notes.append("its launcher does not answer")
    return ", ".join(notes)


def list_places(places: Sequence[GroupPlace]) -> str:
    """Nodes with the GPUs that are held there."""
    return ", ".join(
        f"{place.node} ({place.gpus} GPU{'' if place.gpus == 1 else 's'})" if place.gpus else place.node
        for place in places
    )


#: Of a group without a time limit. Whoever waits for its places has no date, and it passes no claim.
ENDLESS = "no time limit: counts as never ending"


def describe_claim(group: Group, now: datetime) -> str:
    """The places that are kept for it, and when they should be free."""
    if (claim := group.claim) is None:
        return ""
    gpus = f"{claim.gpus} GPU{'' if claim.gpus == 1 else 's'}"
    until = (
        "no date: somebody on them has no time limit"
        if claim.due_at is None
        else f"planned to be free by {clock_time(claim.due_at, today=now)}"
    )
    return f"places with {gpus} since {clock_time(claim.made_at, today=now)} ({claim.cause}), {until}"


def describe_wait(client: Client, group: Group) -> str:
    """Its position and the first reason, as the last finished cycle left them."""
    try:
        explanation = client.reasons(group.id)
    except ClientError:
        # Redis is away, or the group has just been admitted; the next look says more.
        return ""
    position = "" if explanation.position is None else f"position {explanation.position} in {group.queue}"
    now = SystemClock().now()
    first = describe_reason(explanation.reasons[0], now) if explanation.reasons else ""
    return ", ".join(part for part in (position, first) if part)


def describe_reason(reason: Reason, now: datetime) -> str:
    """Its sentence, with its instants as they are said elsewhere."""
    text = reason.message
    for said in reason.scope.values():
        if (at := _read_instant(said)) is not None:
            text = text.replace(said, clock_time(at, today=now))
    return text


def _read_instant(text: str) -> datetime | None:
    """None if it is none; a number alone is none."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def describe_forecast(forecast: Forecast, now: datetime) -> str:
    """When it is likely to start, and what that rests on."""
    why = "; ".join(forecast.assumptions)
    if forecast.p50_at is None and forecast.p90_at is None:
        return f"unknown: {why}"
    if forecast.p50_at is not None and forecast.p50_at == forecast.p90_at:
        return f"by {clock_time(forecast.p50_at, today=now)}, if: {why}"
    parts = []
    if forecast.p50_at is not None:
        parts.append(f"{clock_time(forecast.p50_at, today=now)} (half of the time)")
    if forecast.p90_at is not None:
        parts.append(f"{clock_time(forecast.p90_at, today=now)} (nine times in ten)")
    return f"by {' or '.join(parts)}, if: {why}"


def describe_guard(position: Position, now: datetime) -> str:
    """When places are kept for it whatever their date."""
    if position.guard_left_seconds is None:
        return ""
    left = span(position.guard_left_seconds)
    if position.guard_at is None:
        return f"stands still with {left} left: more than places is missing"
    if position.guard_at <= now:
        return f"ran out at {clock_time(position.guard_at, today=now)}"
    return f"runs out at {clock_time(position.guard_at, today=now)}, in {left}, while only places are missing"
