"""The rows of units that wait and of those that hold places, as values of a World."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from service.admission.world import PendingUnit, RunningUnit
from service.store.places import places_of

Units = tuple[dict[int, PendingUnit], dict[int, RunningUnit]]

#: In the order of `pending_units`. A World has each waiting unit in memory: short texts, no objects.
_WAITING = """
SELECT u.id, u.group_id, g.public_id::text, g.queue_id, g.shape_id, g.priority, g.submitted_at,
  u.first_index, u.last_index, u.attempt, u.version, u.is_held, u.backoff_until, u.failed_nodes,
  g.time_limit_seconds, g.start_timeout_seconds, g.tenant, g.owner, g.is_preemptible, g.grace_seconds,
  u.waiting_since, g.not_before_at, u.open_dependencies, u.has_never_run, u.preempted_at,
  g.expected_seconds
FROM units u JOIN groups g ON g.id = u.group_id
WHERE u.status = 'Pending' AND
"""
#: In the order of `running_units`.
_LIVING = """
SELECT u.id, u.group_id, g.public_id::text, g.queue_id, g.shape_id, a.attempt, a.revision, a.places,
  a.usage, a.admitted_at, a.time_limit_at,
  CASE WHEN a.evict_target IS NOT NULL THEN a.kill_at END, a.resized_at, u.preempted_at, g.priority,
  g.submitted_at, g.tenant, g.owner, g.is_preemptible, g.grace_seconds,
  a.is_resizable AND u.status = 'Running' AND a.adding IS NULL AND a.dropping IS NULL, a.dropping,
  a.drop_kill_at, g.expected_seconds
FROM attempts a JOIN units u ON u.id = a.unit_id JOIN groups g ON g.id = u.group_id
WHERE u.status NOT IN ('Pending', 'Succeeded', 'Failed', 'Cancelled') AND
"""
_NOBODY: frozenset[int] = frozenset()


def waiting_statement(ids: str | None = None) -> str:
    """Rows that wait: all of them, or those among `ids`, an expression for an array."""
    return f"{_WAITING} {'u.ended_at IS NULL' if ids is None else f'u.id = ANY({ids})'}"


def living_statement(ids: str | None = None) -> str:
    """Units that hold places: all of them, or those among `ids`, an expression for an array."""
    return f"{_LIVING} {'u.ended_at IS NULL' if ids is None else f'a.unit_id = ANY({ids})'}"


def pending_units(rows: Iterable[tuple[Any, ...]]) -> dict[int, PendingUnit]:
    """Of rows of `waiting_statement`."""
    return {
        row[0]: PendingUnit(
            id=row[0],
            group_id=row[1],
            public_id=row[2],
            queue_id=row[3],
            shape_id=row[4],
            priority=row[5],
            submitted_at=row[6],
            first_index=row[7],
            last_index=row[8],
            attempt=row[9],
            version=row[10],
            is_held=row[11],
            backoff_until=row[12],
            avoided_nodes=frozenset(row[13]) if row[13] else _NOBODY,
            time_limit_seconds=row[14],
            start_timeout_seconds=row[15],
            owner=owner_of(row[16], row[17]),
            is_preemptible=row[18],
            grace_seconds=row[19],
            waiting_since=row[20],
            not_before_at=row[21],
            open_dependencies=row[22] or 0,
            has_never_run=bool(row[23]),
            preempted_at=tuple(row[24] or ()),
            expected_seconds=row[25],
        )
        for row in rows
    }


def running_units(rows: Iterable[tuple[Any, ...]]) -> dict[int, RunningUnit]:
    """Of rows of `living_statement`."""
    return {
        row[0]: RunningUnit(
            id=row[0],
            group_id=row[1],
            public_id=row[2],
            queue_id=row[3],
            shape_id=row[4],
            attempt=row[5],
            revision=row[6],
            places=places_of(row[7]),
            usage=row[8],
            admitted_at=row[9],
            time_limit_at=row[10],
            evicting_until=row[11],
            resized_at=row[12],
            preempted_at=tuple(row[13] or ()),
            priority=row[14],
            submitted_at=row[15],
            owner=owner_of(row[16], row[17]),
            is_preemptible=row[18],
            grace_seconds=row[19],
            is_resizable=row[20],
            dropping=tuple(row[21] or ()),
            dropping_until=row[22],
            expected_seconds=row[23],
        )
        for row in rows
    }


def owner_of(tenant: str, user: str) -> str:
    """A user of a tenant as one name, the same object each time: many units have it."""
    return sys.intern(f"{tenant}/{user}")
