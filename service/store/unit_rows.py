"""The rows of units that wait and of those that hold places, as values of a World."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from service.admission.world import PendingUnit, RunningUnit
from service.store.places import places_of

Units = tuple[dict[int, PendingUnit], dict[int, RunningUnit]]

#: In the order of `pending_units`. A World has each waiting unit in memory: short texts, no objects.
_WAITING = """
SELECT u.id, u.group_id, g.public_id::text, g.queue_id, g.shape_id, g.priority, g.submitted_at,
  u.first_index, u.last_index, u.attempt, u.version, u.is_held, u.backoff_until, u.failed_nodes,
  g.time_limit_seconds, g.start_timeout_seconds
FROM units u JOIN groups g ON g.id = u.group_id
WHERE u.status = 'Pending' AND
"""
#: In the order of `running_units`.
_LIVING = """
SELECT u.id, u.group_id, g.public_id::text, g.queue_id, g.shape_id, a.attempt, a.revision, a.places,
  a.usage, a.time_limit_at
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
            time_limit_at=row[9],
        )
        for row in rows
    }
