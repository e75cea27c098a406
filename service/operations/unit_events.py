"""What is recorded of units: one event for each change, with its cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from service.domain.events import Event, Kind
from service.domain.status import Cause, Status, passed_through
from service.store.attempts import LiveAttempt
from service.store.closing import AttemptOutcome, ReleasedUnit

_KIND = {
    Status.STARTING: Kind.STARTING,
    Status.RUNNING: Kind.RUNNING,
    Status.RECOVERING: Kind.RECOVERING,
    Status.SUCCEEDED: Kind.SUCCEEDED,
}
_END_KIND = {
    AttemptOutcome.SUCCEEDED: Kind.SUCCEEDED,
    AttemptOutcome.FAILED: Kind.FAILED,
    AttemptOutcome.CANCELLED: Kind.CANCELLED,
    AttemptOutcome.REQUEUED: Kind.REQUEUED,
}


def status_events(
    attempt: LiveAttempt,
    to: Status,
    *,
    now: datetime,
    cause: Cause | None = None,
    message: str | None = None,
    ended_at: datetime | None = None,
) -> list[Event]:
    """One event for each change, also for changes that were seen at once."""
    steps = passed_through(attempt.status, to)
    return [
        unit_event(attempt, _KIND[step], now=now)
        if step is not to
        else unit_event(attempt, _KIND[step], now=now, cause=cause, message=message, ended_at=ended_at)
        for step in steps
    ]


def unit_event(
    attempt: LiveAttempt,
    kind: Kind,
    *,
    now: datetime,
    cause: Cause | None = None,
    message: str | None = None,
    ended_at: datetime | None = None,
) -> Event:
    data: dict[str, object] = {}
    if message is not None:
        data["message"] = message
    if ended_at is not None:
        data["ended_at"] = ended_at.isoformat()
    return Event(
        at=now,
        kind=kind,
        group_id=attempt.group_id,
        unit_id=attempt.unit_id,
        attempt=attempt.attempt,
        generation=attempt.generation,
        cause=None if cause is None else cause.value,
        data=data or None,
        # Only while it runs it may be resized.
        is_feed=attempt.is_resizable and kind in (Kind.RUNNING, Kind.RECOVERING),
    )


def end_event(attempt: LiveAttempt, release: ReleasedUnit, *, now: datetime) -> Event:
    data: dict[str, object] = {"message": release.message}
    if release.backoff_until is not None:
        data["backoff_until"] = release.backoff_until.isoformat()
    return Event(
        at=now,
        kind=_END_KIND[release.outcome],
        group_id=attempt.group_id,
        unit_id=attempt.unit_id,
        attempt=attempt.attempt,
        generation=attempt.generation,
        cause=None if release.cause is None else release.cause.value,
        data=data,
    )


def nodes_lost(
    attempt: LiveAttempt, node_ids: Sequence[int], *, names: Mapping[int, str], now: datetime
) -> list[Event]:
    return [
        Event(
            at=now,
            kind=Kind.NODE_LOST,
            group_id=attempt.group_id,
            unit_id=attempt.unit_id,
            node_id=node_id,
            attempt=attempt.attempt,
            generation=attempt.generation,
            data={"node": names.get(node_id, str(node_id))},
        )
        for node_id in node_ids
    ]


def evicting_event(
    unit_id: int,
    group_id: int,
    *,
    attempt: int,
    target: Status,
    cause: Cause,
    message: str,
    at: datetime,
    actor: str = "muster",
) -> Event:
    """The record of a decision to end an attempt."""
    return Event(
        at=at,
        kind=Kind.EVICTING,
        actor=actor,
        group_id=group_id,
        unit_id=unit_id,
        attempt=attempt,
        cause=cause.value,
        data={"target": target.value, "message": message},
    )
