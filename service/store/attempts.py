"""Live attempts: what holds places, and where it stands with its launcher."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Connection, text

from service.domain.node import Place
from service.domain.status import Cause, Status
from service.store.arrays import number_array
from service.store.pipe import Pipe, compact, one_trip

WAITING, CLAIMED, LAUNCHED, CLOSING = "Waiting", "Claimed", "Launched", "Closing"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAttempt:
    """One row of `attempts` with its unit and the policy of its group.

    `dispatch`: Waiting (for its launcher), Claimed (being handed over), Launched, Closing (its
    members are being stopped). `version` is that of the unit. `adding` and `dropping`: members whose
    resize is under way; those that go are killed at `drop_kill_at`.
    """

    unit_id: int
    group_id: int
    group_name: str
    is_gang: bool
    attempt: int
    generation: int
    version: int
    status: Status
    dispatch: str
    places: tuple[Place, ...]
    admitted_at: datetime
    restarts_used: int
    refused_dispatches: int
    failed_nodes: tuple[int, ...]
    infrastructure_losses: int
    on_member_loss: str
    max_restarts: int
    backoff_seconds: int
    seat_timeout_seconds: int
    grace_seconds: int
    start_deadline_at: datetime | None
    time_limit_at: datetime | None
    seat_deadline_at: datetime | None
    stop_at: datetime | None
    kill_at: datetime | None
    evict_target: Status | None
    evict_cause: Cause | None
    evict_message: str | None
    evict_backoff_seconds: int | None
    revision: int = 1
    is_resizable: bool = False
    adding: tuple[int, ...] = ()
    dropping: tuple[int, ...] = ()
    drop_kill_at: datetime | None = None

    @property
    def present(self) -> tuple[Place, ...]:
        """Places of the members that it has, without those that it is giving up."""
        return tuple(place for place in self.places if place.member not in self.dropping)

    @property
    def started(self) -> tuple[Place, ...]:
        """Places of the members that it lives by: neither given up, nor added and not launched yet."""
        return tuple(place for place in self.present if place.member not in self.adding)

    @property
    def key(self) -> tuple[int, int, int]:
        return (self.unit_id, self.attempt, self.generation)

    @property
    def gpus(self) -> int:
        return sum(len(place.devices) for place in self.places)


class PresentUnit(NamedTuple):
    """A live unit and its attempt, locked. `has_secrets`: its group's sealed values are still there."""

    unit_id: int
    group_id: int
    status: str
    version: int
    restarts_used: int
    attempt: int
    generation: int
    dispatch: str
    pool_id: int
    evict_target: str | None
    evict_cause: str | None
    evict_message: str | None
    evict_backoff_seconds: int | None
    has_secrets: bool
    revision: int


def lock_units(conn: Connection, unit_ids: Collection[int]) -> dict[int, PresentUnit]:
    """Lock these units and their attempts until the transaction ends, and say how they are now."""
    if not unit_ids:
        return {}
    with one_trip(conn) as pipe:
        locked = send_locks(pipe, unit_ids)
    return present_units(locked)


def send_locks(pipe: Pipe, unit_ids: Collection[int]) -> psycopg.RawCursor[Any]:
    """`lock_units` as part of a trip; its answer is read by `present_units`.

    W4: group rows of independent groups first, in id order, then the units in a later statement, so
    that a cancel which splits a range, and this, never miss each other.
    """
    ids = sorted(set(unit_ids))
    pipe.run(_LOCK_GROUPS, number_array(sorted({unit >> 20 for unit in ids})))
    return pipe.run(_LOCK_UNITS, number_array(ids))


def present_units(locked: psycopg.RawCursor[Any]) -> dict[int, PresentUnit]:
    return {row[0]: PresentUnit(*row) for row in locked}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A locked unit whose members are stopped to start again in place."""

    unit_id: int
    cause: Cause
    message: str
    seat_deadline_at: datetime
    kill_at: datetime
    counts_restart: bool
    failed_nodes: tuple[int, ...]


def set_recovering(conn: Connection, recoveries: Sequence[Recovery]) -> None:
    ids = [recovery.unit_id for recovery in recoveries]
    conn.execute(
        _SET_RECOVERING,
        {
            "ids": ids,
            "causes": [recovery.cause.value for recovery in recoveries],
            "messages": [recovery.message for recovery in recoveries],
            "seats": [recovery.seat_deadline_at for recovery in recoveries],
            "kills": [recovery.kill_at for recovery in recoveries],
        },
    )
    conn.execute(
        _COUNT_RECOVERY, {"ids": ids, "restarts": [int(recovery.counts_restart) for recovery in recoveries]}
    )
    add_failed_nodes(conn, {recovery.unit_id: recovery.failed_nodes for recovery in recoveries})


def add_failed_nodes(conn: Connection, nodes: Mapping[int, tuple[int, ...]]) -> None:
    """Remember for each unit the nodes that failed it, each once."""
    pairs = [(unit, node) for unit, failed in nodes.items() for node in failed]
    if not pairs:
        return
    units, failed_nodes = _columns(pairs, 2)
    conn.execute(_ADD_FAILED_NODES, {"units": units, "nodes": failed_nodes})


def next_generation(conn: Connection, unit_ids: Sequence[int]) -> None:
    """X2: `close` of the generation has answered Closed, so the next one may go to the launcher."""
    if not unit_ids:
        return
    conn.execute(
        text(
            "UPDATE attempts SET generation = generation + 1, dispatch = 'Waiting', claimed_at = NULL,"
            " kill_at = NULL, adding = NULL,"
            " usage_without = CASE WHEN dropping IS NULL THEN NULL ELSE usage_without END"
            " WHERE unit_id = ANY(CAST(:ids AS bigint[])) AND evict_target IS NULL"
        ),
        {"ids": list(unit_ids)},
    )


def _columns(rows: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
    return [[row[index] for row in rows] for index in range(count)]


_LOCK_GROUPS = compact("""
    SELECT id FROM groups WHERE id = ANY(CAST($1 AS bigint[])) AND scheduling = 'independent'
    ORDER BY id FOR NO KEY UPDATE
""")

_LOCK_UNITS = compact("""
    SELECT u.id, u.group_id, u.status, u.version, u.restarts_used, a.attempt, a.generation, a.dispatch,
           a.pool_id, a.evict_target, a.evict_cause, a.evict_message, a.evict_backoff_seconds,
           EXISTS (SELECT FROM group_specs s WHERE s.group_id = u.group_id AND s.secrets IS NOT NULL),
           a.revision
    FROM units u JOIN attempts a ON a.unit_id = u.id
    WHERE u.id = ANY(CAST($1 AS bigint[])) ORDER BY u.id FOR NO KEY UPDATE OF u, a
""")

_SET_RECOVERING = text("""
    UPDATE attempts a
    SET dispatch = 'Closing', seat_deadline_at = v.seat, kill_at = v.kill, evict_cause = v.cause,
        evict_message = v.message,
        infrastructure_losses = infrastructure_losses + (v.cause = 'Infrastructure')::int
    FROM unnest(CAST(:ids AS bigint[]), CAST(:causes AS text[]), CAST(:messages AS text[]),
                CAST(:seats AS timestamptz[]), CAST(:kills AS timestamptz[]))
         AS v (unit_id, cause, message, seat, kill)
    WHERE a.unit_id = v.unit_id
""")

_COUNT_RECOVERY = text("""
    UPDATE units u
    SET status = 'Recovering', version = version + 1, restarts_used = restarts_used + v.restarts
    FROM unnest(CAST(:ids AS bigint[]), CAST(:restarts AS int[])) AS v (unit_id, restarts)
    WHERE u.id = v.unit_id
""")

_ADD_FAILED_NODES = text("""
    UPDATE units u SET failed_nodes = ARRAY(
        SELECT DISTINCT node FROM unnest(u.failed_nodes || v.nodes) AS node ORDER BY node)
    FROM (SELECT unit_id, array_agg(node) AS nodes
          FROM unnest(CAST(:units AS bigint[]), CAST(:nodes AS bigint[])) AS p (unit_id, node)
          GROUP BY unit_id) AS v
    WHERE u.id = v.unit_id
""")
