"""Why a group waits, and where it stands: what the last cycle published, joined with the numbers
that it shares with others and with what is the group's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from redis import Redis
from sqlalchemy import Connection, Engine

from service.admission.claims.held_for import told_to
from service.admission.pauses import Clock
from service.domain.dependency import When
from service.domain.principal import Principal
from service.domain.reasons import Code, Reason, rank
from service.domain.wording import message
from service.inventory.client import inventory_errors
from service.inventory.verdicts import PublishedQueue, read_numbers, read_queue
from service.operations.awaited_models import find_considered, with_awaited
from service.operations.guard_of_group import find_guard
from service.operations.own_limit_reasons import reasons_of_own_limits
from service.operations.read_groups import get_visible_group, reading
from service.operations.tell_reasons import (
    Told,
    reason_of,
    reason_of_not_before,
    reason_of_stopped,
    reasons_of_after,
    reasons_of_preemption,
    tell_to,
)
from service.store.claim_reads import find_claim
from service.store.group_lists import count_waiting_before
from service.store.group_reads import GroupRow
from service.store.preemption_reads import list_victims_of
from service.store.waiting_reads import (
    WaitingFacts,
    find_refused_end,
    get_waiting_facts,
    is_below_its_size,
    list_open_dependencies,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`position` counts from 1 within the queue, `overall` over all queues; None if nothing waits, or
    what waits may not be admitted now (held, waiting for another group or for an instant, queue stopped),
    or no cycle has seen it.
    `as_of` and `cycle_id` name the cycle.
    `planned_start_at` is the date of its claim, while that is to come. `guard`: its clock, if it may be
    admitted now."""

    group: GroupRow
    is_waiting: bool
    position: int | None
    overall: int | None
    waiting_groups: int
    as_of: datetime | None
    cycle_id: int | None
    planned_start_at: datetime | None
    guard: Clock | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that blocks a group, the most decisive first; empty if nothing of it waits."""

    standing: Standing
    told: Told

    @property
    def reasons(self) -> tuple[Reason, ...]:
        return self.told.reasons


def get_position(
    engine: Engine,
    redis: Redis,
    *,
    public_id: UUID,
    principal: Principal,
    now: datetime,
    guard_seconds: float,
) -> Standing:
    """`guard_seconds`: what a guard is taken for until a leader has published what it goes by. Raises
    NotFound and InventoryUnavailable."""
    with reading(engine) as conn:
        group = get_visible_group(conn, public_id, principal=principal)
        facts = get_waiting_facts(conn, group.id, now=now)
        published = _published(redis, group) if facts.rows else None
        standing = _standing(conn, group, facts=facts, published=published, now=now)
        if not facts.is_eligible:
            return standing
        if published is not None and published.guard_seconds is not None:
            guard_seconds = published.guard_seconds
        return replace(standing, guard=find_guard(conn, group.id, guard_seconds=guard_seconds))


def explain_group(
    engine: Engine, redis: Redis, *, public_id: UUID, principal: Principal, now: datetime
) -> Explanation:
    """Raises NotFound and InventoryUnavailable."""
    with reading(engine) as conn:
        group = get_visible_group(conn, public_id, principal=principal)
        facts = get_waiting_facts(conn, group.id, now=now)
        if not facts.rows:
            of_end = _reasons_of_end(conn, group) or _reasons_of_size(conn, redis, group=group)
            return Explanation(
                standing=_standing(conn, group, facts=facts, published=None, now=now),
                told=Told(reasons=of_end, hidden=(0,) * len(of_end)),
            )
        published = _published(redis, group)
        with inventory_errors():
            numbers = read_numbers(redis)
        considered = find_considered(conn, group, since=facts.since or group.submitted_at, now=now)
        awaited = list_open_dependencies(conn, group.id) if facts.open_dependencies else {}
        reasons = _reasons(
            group,
            facts,
            awaited=awaited,
            victims=list_victims_of(conn, group.id),
            of_limits=reasons_of_own_limits(conn, group, considered=considered.shape),
            published=published,
            numbers=numbers,
        )
        reasons = with_awaited(reasons, considered.next)
        return Explanation(
            standing=_standing(conn, group, facts=facts, published=published, now=now),
            told=tell_to(conn, reasons, principal=principal),
        )


def _reasons_of_end(conn: Connection, group: GroupRow) -> tuple[Reason, ...]:
    """Nothing blocks a group that does not wait; one whose starts were refused till the end says so."""
    refused = find_refused_end(conn, group.id)
    if refused is None:
        return ()
    code = Code.DISPATCH_REFUSED
    return (Reason(code=code, message=refused.message or message(code), have=refused.refusals),)


def _reasons_of_size(conn: Connection, redis: Redis, *, group: GroupRow) -> tuple[Reason, ...]:
    """Of a group that runs with fewer members than it could have: why it gets no more."""
    if not is_below_its_size(conn, group.id):
        return ()
    published = _published(redis, group)
    with inventory_errors():
        numbers = read_numbers(redis)
    return tuple(_published_reasons(group, published, numbers=numbers, rows=0))


def _reasons(
    group: GroupRow,
    facts: WaitingFacts,
    *,
    awaited: Mapping[When, tuple[str, ...]],
    victims: tuple[str, ...],
    of_limits: Sequence[Reason],
    published: PublishedQueue | None,
    numbers: Mapping[str, int],
) -> list[Reason]:
    """The group's own facts are of now, the rest of the last cycle; each code comes from one of them, but
    that a quota and a limit of its owner may both be short."""
    own = [
        *_own_reasons(group, facts),
        *reasons_of_after(awaited),
        *_reasons_of_time(facts),
        *reasons_of_preemption(victims),
    ]
    codes = {reason.code for reason in own}
    published_reasons = _published_reasons(
        group, published, numbers=numbers, rows=facts.rows, since=facts.since
    )
    of_cycle = [reason for reason in published_reasons if reason.code not in codes]
    reasons = sorted((*own, *of_limits, *of_cycle), key=lambda reason: rank(reason.code))
    is_seen = published is not None and published.verdict_for(group.id) is not None
    if not (is_seen and reasons):
        code = Code.PENDING_EVALUATION
        reasons.append(Reason(code=code, message=message(code), since=group.submitted_at))
    return reasons


def _own_reasons(group: GroupRow, facts: WaitingFacts) -> Iterator[Reason]:
    if facts.is_queue_stopped:
        yield reason_of_stopped(group.queue)
    if facts.is_held:
        yield Reason(code=Code.ON_HOLD, message=facts.message or message(Code.ON_HOLD))


def _reasons_of_time(facts: WaitingFacts) -> Iterator[Reason]:
    if facts.not_before_at is not None:
        yield reason_of_not_before(facts.not_before_at)
    if facts.backoff_until is None:
        return
    until = facts.backoff_until.isoformat(timespec="seconds")
    after = f" after: {facts.message}" if facts.message else ""
    yield Reason(
        code=Code.BACKING_OFF,
        message=f"waits until {until} before its next attempt{after}",
        scope={"until": until},
    )
    if facts.refused_dispatches:
        yield Reason(
            code=Code.DISPATCH_REFUSED,
            message=facts.message or message(Code.DISPATCH_REFUSED),
            have=facts.refused_dispatches,
        )


def _published_reasons(
    group: GroupRow,
    published: PublishedQueue | None,
    *,
    numbers: Mapping[str, int],
    rows: int,
    since: datetime | None = None,
) -> Iterator[Reason]:
    """`rows`: how many of it wait, `since` when: what kept others from their start before did not keep it."""
    verdict = published.verdict_for(group.id) if published else None
    if published is None or verdict is None:
        return
    blockers = zip(published.verdicts[verdict], published.since[verdict], strict=True)
    own, ends_at = None if rows > 1 else str(group.public_id), _ends_at(group, published.at)
    first_at = group.submitted_at if since is None else min(since, published.at)
    for blocker, told_at in blockers:
        told = told_to(blocker, public_id=own, ends_at=ends_at)
        if told is not None:
            yield reason_of(told, numbers, since=max(told_at, first_at), cycle=published.cycle)


def _ends_at(group: GroupRow, admitted_at: datetime) -> datetime | None:
    """When it would surely be gone; None: never."""
    if group.time_limit_seconds is None:
        return None
    return admitted_at + timedelta(seconds=group.time_limit_seconds + group.grace_seconds)


def _published(redis: Redis, group: GroupRow) -> PublishedQueue | None:
    with inventory_errors():
        return read_queue(redis, group.queue_id)


def _standing(
    conn: Connection,
    group: GroupRow,
    *,
    facts: WaitingFacts,
    published: PublishedQueue | None,
    now: datetime,
) -> Standing:
    position = published.position_of(group.id) if published and facts.is_eligible else None
    claim = find_claim(conn, group.id) if facts.rows else None
    due_at = None if claim is None else claim.due_at
    return Standing(
        group=group,
        is_waiting=facts.rows > 0,
        position=position,
        overall=None if position is None else 1 + count_waiting_before(conn, group, now=now),
        waiting_groups=len(published.positions()) if published else 0,
        as_of=published.at if published else None,
        cycle_id=published.cycle if published else None,
        planned_start_at=due_at if due_at is not None and due_at > now else None,
    )
