"""Change a group that has not ended: its priority, its time limit, its labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from sqlalchemy import Connection, Engine

from service.domain.errors import Conflict, FieldError, InvalidRequest
from service.domain.events import Event, Kind
from service.domain.group_change import GroupChange, TimeLimit
from service.domain.node import Place
from service.domain.principal import Principal
from service.domain.status import LIVE
from service.domain.submit_rules import broken_priority_rules, broken_time_limit_rules, unknown_class
from service.operations.read_groups import get_visible_group
from service.operations.transactions import in_transaction
from service.store.claims import read_claims
from service.store.config import raise_config_version
from service.store.events import add_events
from service.store.group_changes import HeldPlaces, get_queue_policy, list_held_places, update_group
from service.store.group_reads import GroupRow
from service.store.priority_classes import list_priority_classes
from service.store.waiting_units import LockedUnit, lock_group_units


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What to ring after the commit: the cycle if anything changed, the dispatchers of `pool_ids`."""

    has_changed: bool = False
    pool_ids: frozenset[int] = frozenset()


def change_group(
    engine: Engine, public_id: UUID, *, change: GroupChange, principal: Principal, now: datetime
) -> Changed:
    """Only the owner and operators may. Raises NotFound, InvalidRequest for what the queue does not allow,
    and Conflict if the group has ended, or if an owner's new time limit reaches across a claim.

    A limit that is over at once ends what runs. A plan that was made before the limit of something admitted
    moved does not commit (L2), so a claim is never made on a date that has just changed.
    """
    for raises_version in (False, True):
        work = partial(
            _change,
            public_id=public_id,
            change=change,
            principal=principal,
            now=now,
            raises_version=raises_version,
        )
        if (changed := in_transaction(engine, work)) is not None:
            return changed
    raise AssertionError("unreachable")


def _change(
    conn: Connection,
    *,
    public_id: UUID,
    change: GroupChange,
    principal: Principal,
    now: datetime,
    raises_version: bool,
) -> Changed | None:
    """None: nothing was done, for the version of the configuration has to be raised, and that is the first
    lock that a transaction takes."""
    if raises_version:
        raise_config_version(conn, has_same_nodes=True)
    # 1. The group as it is, and nobody else changes it (W4).
    group = get_visible_group(conn, public_id, principal=principal)
    units = lock_group_units(conn, group.id)
    group = get_visible_group(conn, public_id, principal=principal)
    if not units:
        raise Conflict("The group has ended.")
    # 2. What is new of it, and may be.
    change = _news(group, _named(conn, change))
    _check_queue(conn, group, change=change, principal=principal)
    live = [unit.id for unit in units if unit.status in LIVE]
    held = list_held_places(conn, live) if change.time_limit else []
    if held and not raises_version:
        return None
    if change.time_limit and not principal.is_operator:
        _check_claims(conn, group, limit=change.time_limit, held=held)
    # 3. Written.
    if not change:
        return Changed()
    update_group(conn, group.id, change=change, unit_ids=[unit.id for unit in units])
    add_events(conn, _events(group, units, change=change, actor=principal.user, now=now))
    return Changed(has_changed=True, pool_ids=frozenset(each.pool_id for each in held))


def _named(conn: Connection, change: GroupChange) -> GroupChange:
    """With the value that its priority class has now."""
    if change.priority_class is None:
        return change
    classes = list_priority_classes(conn)
    if change.priority_class not in classes:
        raise InvalidRequest.of([unknown_class(change.priority_class, classes)])
    return replace(change, priority=classes[change.priority_class], priority_class=None)


def _news(group: GroupRow, change: GroupChange) -> GroupChange:
    """Without what is so already."""
    if change.priority == group.priority:
        change = replace(change, priority=None)
    if change.time_limit is not None and change.time_limit.seconds == group.time_limit_seconds:
        change = replace(change, time_limit=None)
    if change.labels is not None and dict(change.labels) == dict(group.labels):
        change = replace(change, labels=None)
    return change


def _check_queue(conn: Connection, group: GroupRow, *, change: GroupChange, principal: Principal) -> None:
    """Bounds are for what is raised: nobody is kept from lowering what somebody else has set."""
    policy = get_queue_policy(conn, group.queue_id)
    errors: list[FieldError] = []
    if change.priority is not None and change.priority > group.priority:
        errors += broken_priority_rules(change.priority, policy, role=principal.role)
    limit, before = change.time_limit, TimeLimit(seconds=group.time_limit_seconds)
    if limit is not None and limit.is_above(before):
        errors += broken_time_limit_rules(limit.seconds, policy)
    if errors:
        raise InvalidRequest.of(errors)


def _check_claims(conn: Connection, group: GroupRow, *, limit: TimeLimit, held: Sequence[HeldPlaces]) -> None:
    """What is kept for somebody else from a date on is not held beyond it."""
    if not held or not limit.is_above(TimeLimit(seconds=group.time_limit_seconds)):
        return
    for claim in read_claims(conn).values():
        across = (
            _overlap(each.places, claim.places) and _is_across(group, each, limit=limit, due_at=claim.due_at)
            for each in held
        )
        if claim.unit_id >> 20 != group.id and any(across):
            due = "" if claim.due_at is None else f" from {claim.due_at.isoformat(timespec='seconds')} on"
            raise Conflict(f"Its places are kept for another group{due}; an operator may raise it still.")


def _is_across(group: GroupRow, held: HeldPlaces, *, limit: TimeLimit, due_at: datetime | None) -> bool:
    if due_at is None or limit.seconds is None:
        return True
    return held.admitted_at + timedelta(seconds=limit.seconds + group.grace_seconds) > due_at


def _overlap(held: Sequence[Place], claimed: Sequence[Place]) -> bool:
    """One device in both; or one node, where one of them asks for CPUs and memory only."""
    devices = {(place.node_id, device) for place in held for device in place.devices}
    nodes = {place.node_id for place in held}
    bare = {place.node_id for place in held if not place.devices}
    return any(
        place.node_id in bare
        or (not place.devices and place.node_id in nodes)
        or any((place.node_id, device) in devices for device in place.devices)
        for place in claimed
    )


def _events(
    group: GroupRow, units: Sequence[LockedUnit], *, change: GroupChange, actor: str, now: datetime
) -> Iterator[Event]:
    data: dict[str, object] = {}
    if change.priority is not None:
        data["priority"] = {"from": group.priority, "to": change.priority}
    if change.time_limit is not None:
        data["time_limit_seconds"] = {"from": group.time_limit_seconds, "to": change.time_limit.seconds}
    if change.labels is not None:
        data["labels"] = {"from": dict(group.labels), "to": dict(change.labels)}
    for unit in units:
        yield Event(
            at=now,
            kind=Kind.CHANGED,
            actor=actor,
            group_id=group.id,
            unit_id=unit.id,
            attempt=unit.attempt,
            data=data,
        )
