"""One pass of a dispatcher goes into the books: what was launched, seen, decided and closed.

Everything is a list and lands in one transaction. Every entry names the
attempt that it was decided for; what is not that any more is dropped and looked at again (D2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection

from service.domain.events import Event, Kind
from service.domain.lifecycle.decisions import Advance, Evict, Recover, Succeed
from service.domain.status import Cause, Status
from service.operations.dependencies import answer_dependents
from service.operations.dispatch import PoolFence
from service.operations.pool_state import lost_note
from service.operations.register_nodes import device_event
from service.operations.unit_events import (
    end_event,
    evicting_event,
    nodes_lost,
    status_events,
    unit_event,
)
from service.store.attempts import (
    WAITING,
    LiveAttempt,
    PresentUnit,
    Recovery,
    add_failed_nodes,
    next_generation,
    set_recovering,
)
from service.store.closing import (
    AttemptOutcome,
    EvictingUnit,
    ReleasedUnit,
    send_releases,
    set_evicting,
)
from service.store.config import raise_config_version
from service.store.events import send_events
from service.store.inventory_rows import set_devices_lost
from service.store.member_ends import MemberEnd, send_member_ends
from service.store.pipe import one_trip
from service.store.progress import Progress, send_progress
from service.store.resizes import ResizeStep, send_resize_steps
from service.store.specs import send_erasure

_OUTCOME_OF_TARGET = {
    Status.PENDING: AttemptOutcome.REQUEUED,
    Status.FAILED: AttemptOutcome.FAILED,
    Status.CANCELLED: AttemptOutcome.CANCELLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """An attempt of which nothing is left: `close` has answered so, or it was never claimed, or what
    is left survived SIGKILL too long and its devices are lost (X5).

    `success`: it ended well; else it was Evicting, or Recovering and starts its next generation.
    `ended_at`: when its last member ended, None if that is not known.
    """

    attempt: LiveAttempt
    success: Succeed | None = None
    ended_at: datetime | None = None
    lost_devices: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True, kw_only=True)
class PassResult:
    """What a pass found. `launched`: keys (unit, attempt, generation) that the launcher has taken.
    `resized`: how the resizes of running ones went on."""

    launched: list[tuple[int, int, int]] = field(default_factory=list)
    ends: list[MemberEnd] = field(default_factory=list)
    decided: list[tuple[LiveAttempt, Advance | Recover | Evict]] = field(default_factory=list)
    closed: list[Closed] = field(default_factory=list)
    resized: list[ResizeStep] = field(default_factory=list)
    node_names: Mapping[int, str] = field(default_factory=dict)

    def unit_ids(self) -> set[int]:
        return (
            {key[0] for key in self.launched}
            | {end.unit_id for end in self.ends}
            | {attempt.unit_id for attempt, _ in self.decided}
            | {closed.attempt.unit_id for closed in self.closed}
            | {step.unit_id for step in self.resized}
        )

    def __bool__(self) -> bool:
        return bool(self.launched or self.ends or self.decided or self.closed or self.resized)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """`outdated`: units that had changed meanwhile, so that something was dropped. `handed_over`:
    generations that are over and that the launcher knew. `released`: attempts whose places are free now.
    `has_resized`: members of running ones came or went. `has_followers`: something else can be done now,
    because of what was recorded or outdated."""

    outdated: frozenset[int] = frozenset()
    handed_over: tuple[tuple[int, int, int], ...] = ()
    released: tuple[LiveAttempt, ...] = ()
    has_lost_devices: bool = False
    has_resized: bool = False
    has_followers: bool = False


D = TypeVar("D", Advance, Recover, Evict)

Present = Mapping[int, PresentUnit]


def commit_observations(fence: PoolFence, result: PassResult, *, now: datetime) -> Recorded:
    """Record a pass. Raises LeaseLost if another dispatcher has the pool: nothing is written then.

    However much it is: one round trip reads, one writes and one commits, besides those for what is rare.
    """
    with fence.conn.begin():
        if any(closed.lost_devices for closed in result.closed):
            # Before any unit is locked, as the leader does it (L2): it reads the version, then locks.
            raise_config_version(fence.conn)
        # 1. The pool is ours (D1), and nobody changes these units until the end (W4).
        present = fence.lock_units(result.unit_ids())
        # 2. What was decided for another state of a unit is dropped (D2).
        decided = [(a, d) for a, d in result.decided if _is_same(present, a)]
        closed = [c for c in result.closed if _is_still_closing(present, c)]
        ended = [c for c in closed if not _goes_on(c)]
        releases = [_release(c, present[c.attempt.unit_id], now=now) for c in ended]
        # 3. What is rare.
        events = _advanced(_having(decided, Advance), now=now)
        events += _recover(fence.conn, _having(decided, Recover), names=result.node_names, now=now)
        events += _evict(fence.conn, _having(decided, Evict), names=result.node_names, now=now)
        next_generation(fence.conn, [c.attempt.unit_id for c in closed if _goes_on(c)])
        events += _lose_devices(fence.conn, ended, now=now)
        events += _ended(ended, releases, now=now)
        # 4. Facts, what moved forward, ends of attempts, and what is told of it all.
        with one_trip(fence.conn) as pipe:
            if ends := [end for end in result.ends if _is_of_live(present, end)]:
                send_member_ends(pipe, ends, now=now)
            if progress := _progress(result, decided, present=present):
                send_progress(pipe, progress, now=now)
            if resized := [step for step in result.resized if _has_its_revision(present, step)]:
                send_resize_steps(pipe, resized, now=now)
            awaited = send_releases(pipe, releases, now=now) if releases else None
            if secret := {present[r.unit_id].group_id for r in releases if present[r.unit_id].has_secrets}:
                send_erasure(pipe, secret)
            if events:
                send_events(pipe, events)
        # 5. Who waits for one of these ends.
        if awaited is not None and (group_ids := [row[0] for row in awaited]):
            answer_dependents(fence.conn, group_ids, now=now)
    return _recorded(result, decided, closed=closed, has_resized=bool(resized))


def _recorded(
    result: PassResult,
    decided: Sequence[tuple[LiveAttempt, Advance | Recover | Evict]],
    *,
    closed: Sequence[Closed],
    has_resized: bool,
) -> Recorded:
    wanted = {attempt.unit_id for attempt, _ in result.decided} | {c.attempt.unit_id for c in result.closed}
    done = {attempt.unit_id for attempt, _ in decided} | {c.attempt.unit_id for c in closed}
    return Recorded(
        outdated=frozenset(wanted - done),
        handed_over=tuple(c.attempt.key for c in closed if c.attempt.dispatch != WAITING),
        released=tuple(c.attempt for c in closed if not _goes_on(c)),
        has_lost_devices=any(c.lost_devices for c in closed),
        has_resized=has_resized,
        has_followers=wanted != done
        or has_resized
        or any(not isinstance(decision, Advance) for _, decision in decided)
        or any(c.lost_devices or _goes_on(c) for c in closed),
    )


def _having(decided: Iterable[tuple[LiveAttempt, Any]], kind: type[D]) -> list[tuple[LiveAttempt, D]]:
    return [(attempt, decision) for attempt, decision in decided if isinstance(decision, kind)]


# ---------------------------------------------------------------- compare and set
def _is_same(present: Present, attempt: LiveAttempt) -> bool:
    row = present.get(attempt.unit_id)
    return row is not None and (row.attempt, row.generation, row.version, row.status) == (
        attempt.attempt,
        attempt.generation,
        attempt.version,
        attempt.status.value,
    )


def _is_still_closing(present: Present, closed: Closed) -> bool:
    """A cancel may have come meanwhile: it only changes where the unit goes. A generation that nobody
    had claimed must still be unclaimed (X1)."""
    row = present.get(closed.attempt.unit_id)
    if row is None or (row.attempt, row.generation) != (closed.attempt.attempt, closed.attempt.generation):
        return False
    if closed.success is not None or _goes_on(closed):
        return _is_same(present, closed.attempt)
    return bool(row.dispatch == WAITING) == (closed.attempt.dispatch == WAITING)


def _is_of_live(present: Present, end: MemberEnd) -> bool:
    row = present.get(end.unit_id)
    return row is not None and row.attempt == end.attempt and row.generation >= end.generation


def _has_its_revision(present: Present, step: ResizeStep) -> bool:
    row = present.get(step.unit_id)
    return row is not None and (row.attempt, row.revision) == (step.attempt, step.revision)


def _goes_on(closed: Closed) -> bool:
    return closed.success is None and closed.attempt.status is Status.RECOVERING


# ---------------------------------------------------------------- what moves forward
def _progress(
    result: PassResult,
    decided: Sequence[tuple[LiveAttempt, Advance | Recover | Evict]],
    *,
    present: Present,
) -> list[Progress]:
    """What was launched, and what starts or runs, by attempt."""
    progress = {
        key: Progress(unit_id=key[0], attempt=key[1], generation=key[2], is_launched=True)
        for key in result.launched
        if key[0] in present
    }
    for attempt, advance in _having(decided, Advance):
        of_key = progress.setdefault(
            attempt.key,
            Progress(unit_id=attempt.unit_id, attempt=attempt.attempt, generation=attempt.generation),
        )
        of_key.status = advance.to
    return list(progress.values())


def _advanced(decided: Sequence[tuple[LiveAttempt, Advance]], *, now: datetime) -> list[Event]:
    return [event for attempt, to in decided for event in status_events(attempt, to.to, now=now)]


# ---------------------------------------------------------------- decisions
def _recover(
    conn: Connection,
    decided: Sequence[tuple[LiveAttempt, Recover]],
    *,
    names: Mapping[int, str],
    now: datetime,
) -> list[Event]:
    if not decided:
        return []
    set_recovering(conn, [_recovery(attempt, recover, now=now) for attempt, recover in decided])
    events: list[Event] = []
    for attempt, recover in decided:
        # Lost again while it recovers: nothing changes but the generation to come.
        if attempt.status is not Status.RECOVERING:
            events += status_events(
                attempt, Status.RECOVERING, now=now, cause=recover.cause, message=recover.message
            )
        else:
            events.append(
                unit_event(attempt, Kind.RECOVERING, now=now, cause=recover.cause, message=recover.message)
            )
        events += nodes_lost(attempt, recover.lost_nodes, names=names, now=now)
    return events


def _recovery(attempt: LiveAttempt, recover: Recover, *, now: datetime) -> Recovery:
    return Recovery(
        unit_id=attempt.unit_id,
        cause=recover.cause,
        message=recover.message,
        seat_deadline_at=recover.seat_deadline_at,
        kill_at=now + timedelta(seconds=attempt.grace_seconds),
        counts_restart=recover.counts_restart,
        failed_nodes=recover.failed_nodes,
    )


def _evict(
    conn: Connection,
    decided: Sequence[tuple[LiveAttempt, Evict]],
    *,
    names: Mapping[int, str],
    now: datetime,
) -> list[Event]:
    if not decided:
        return []
    set_evicting(conn, [_eviction(attempt, evict) for attempt, evict in decided], now=now)
    add_failed_nodes(conn, {attempt.unit_id: evict.failed_nodes for attempt, evict in decided})
    events: list[Event] = []
    for attempt, evict in decided:
        if evict.counts_refusal:
            events.append(unit_event(attempt, Kind.DISPATCH_REFUSED, now=now, message=evict.message))
        events.append(
            evicting_event(
                attempt.unit_id,
                attempt.group_id,
                attempt=attempt.attempt,
                target=evict.target,
                cause=evict.cause,
                message=evict.message,
                at=now,
            )
        )
        events += nodes_lost(attempt, evict.lost_nodes, names=names, now=now)
    return events


def _eviction(attempt: LiveAttempt, evict: Evict) -> EvictingUnit:
    return EvictingUnit(
        unit_id=attempt.unit_id,
        target=evict.target,
        cause=evict.cause,
        message=evict.message,
        backoff_seconds=evict.backoff_seconds,
        # What the launcher refused is not a program that could save anything.
        grace_seconds=0 if evict.counts_refusal else None,
        counts_restart=evict.counts_restart,
        counts_refusal=evict.counts_refusal,
        is_held=evict.is_held,
    )


# ---------------------------------------------------------------- ends of attempts
def _ended(ended: Sequence[Closed], releases: Sequence[ReleasedUnit], *, now: datetime) -> list[Event]:
    events: list[Event] = []
    for c, release in zip(ended, releases, strict=True):
        if c.success is not None:
            events += status_events(c.attempt, Status.SUCCEEDED, now=now, ended_at=release.ended_at)
        else:
            events.append(end_event(c.attempt, release, now=now))
    return events


def _release(closed: Closed, row: PresentUnit, *, now: datetime) -> ReleasedUnit:
    attempt = closed.attempt
    if closed.success is not None:
        return ReleasedUnit(
            unit_id=attempt.unit_id,
            outcome=AttemptOutcome.SUCCEEDED,
            ended_at=closed.success.ended_at,
            gpus=attempt.gpus,
        )
    # It was Evicting.
    assert row.evict_target
    assert row.evict_cause
    backoff = row.evict_backoff_seconds
    return ReleasedUnit(
        unit_id=attempt.unit_id,
        outcome=_OUTCOME_OF_TARGET[Status(row.evict_target)],
        ended_at=closed.ended_at or now,
        gpus=attempt.gpus,
        cause=Cause(row.evict_cause),
        message=row.evict_message,
        backoff_until=None if backoff is None else now + timedelta(seconds=backoff),
    )


def _lose_devices(conn: Connection, ended: Sequence[Closed], *, now: datetime) -> list[Event]:
    """X5: the hold ends, and the devices stay lost until what sits there is gone."""
    lost = [(node_id, device, lost_note(c.attempt.key)) for c in ended for node_id, device in c.lost_devices]
    if not lost:
        return []
    notes = {(node_id, device): note for node_id, device, note in lost}
    return [
        device_event(Kind.DEVICE_LOST, seat, at=now, note=notes[seat])
        for seat in set_devices_lost(conn, lost, now=now)
    ]
