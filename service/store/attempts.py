"""Live attempts: what holds places, where it stands with its launcher, and when something is due."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from service.domain.node import Place
from service.domain.status import Cause, Status
from service.store.places import places_of

WAITING, CLAIMED, LAUNCHED, CLOSING = "Waiting", "Claimed", "Launched", "Closing"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAttempt:
    """One row of `attempts` with its unit and the policy of its group.

    `dispatch`: Waiting (for its launcher), Claimed (being handed over), Launched, Closing (its
    members are being stopped). `version` is that of the unit.
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

    @property
    def key(self) -> tuple[int, int, int]:
        return (self.unit_id, self.attempt, self.generation)

    @property
    def gpus(self) -> int:
        return sum(len(place.devices) for place in self.places)


def load_attempts(
    conn: Connection, pool_id: int, *, now: datetime, changed: Collection[int] | None
) -> list[LiveAttempt]:
    """The live attempts of a pool with which something may have to be done: not settled with their
    launcher, or a deadline is over, or among the units in `changed`; all of them if that is None."""
    rows = conn.execute(
        _LOAD,
        {"pool_id": pool_id, "now": now, "everything": changed is None, "changed": list(changed or ())},
    )
    return [_live(row) for row in rows]


@dataclass(frozen=True, slots=True)
class LiveKey:
    """What is alive in the books, in short."""

    unit_id: int
    attempt: int
    generation: int
    dispatch: str
    member_count: int


def load_keys(conn: Connection, pool_id: int) -> list[LiveKey]:
    """Every live attempt of a pool, in short."""
    rows = conn.execute(
        text(
            "SELECT unit_id, attempt, generation, dispatch, jsonb_array_length(places)"
            " FROM attempts WHERE pool_id = :pool_id"
        ),
        {"pool_id": pool_id},
    )
    return [LiveKey(*row) for row in rows]


def load_claimable(
    conn: Connection,
    pool_id: int,
    *,
    down_nodes: Collection[int],
    lost_devices: Collection[tuple[int, int]],
    limit: int,
) -> list[LiveAttempt]:
    """The first `limit` attempts that wait for their launcher, or were claimed by a dispatcher that never
    said how the launch went, and have no place on these nodes or devices (node, device); locked, in the
    order of their ids."""
    rows = conn.execute(
        _CLAIMABLE,
        {
            "pool_id": pool_id,
            "down": list(down_nodes),
            "lost_nodes": [node for node, _ in lost_devices],
            "lost_devices": [device for _, device in lost_devices],
            "limit": limit,
        },
    )
    return [_live(row) for row in rows]


def mark_claimed(conn: Connection, unit_ids: Sequence[int], *, epoch: int, now: datetime) -> None:
    """The locked rows go to the launcher now. A claim taken over counts no second dispatch."""
    conn.execute(
        text(
            "UPDATE attempts SET dispatches = dispatches + (dispatch = 'Waiting')::int,"
            " dispatch = 'Claimed', claimed_epoch = :epoch, claimed_at = :now"
            " WHERE unit_id = ANY(CAST(:ids AS bigint[]))"
        ),
        {"ids": list(unit_ids), "epoch": epoch, "now": now},
    )


def mark_launched(conn: Connection, keys: Sequence[tuple[int, int, int]]) -> None:
    """The launcher has taken these (unit, attempt, generation). What is being closed stays so."""
    if not keys:
        return
    units, attempts, generations = _columns(keys, 3)
    conn.execute(_MARK_LAUNCHED, {"units": units, "attempts": attempts, "generations": generations})


def lock_units(conn: Connection, unit_ids: Collection[int]) -> dict[int, Row[Any]]:
    """Lock these units and their attempts until the transaction ends, and say how they are now.

    W4: group rows of independent groups first, in id order, then the units in a later statement, so
    that a cancel which splits a range, and this, never miss each other.
    """
    ids = sorted(set(unit_ids))
    if not ids:
        return {}
    conn.execute(_LOCK_GROUPS, {"groups": sorted({unit >> 20 for unit in ids})})
    return {row.unit_id: row for row in conn.execute(_LOCK_UNITS, {"ids": ids})}


def set_starting(conn: Connection, unit_ids: Sequence[int]) -> None:
    """Locked units are now Starting."""
    conn.execute(
        text(
            "UPDATE units SET status = 'Starting', version = version + 1"
            " WHERE id = ANY(CAST(:ids AS bigint[]))"
        ),
        {"ids": list(unit_ids)},
    )


def set_running(conn: Connection, unit_ids: Sequence[int], *, now: datetime) -> None:
    """Locked units are now Running: their start and seat deadlines are met, and what their launcher
    refused before is over."""
    conn.execute(
        text(
            "UPDATE units SET status = 'Running', version = version + 1, refused_dispatches = 0"
            " WHERE id = ANY(CAST(:ids AS bigint[]))"
        ),
        {"ids": list(unit_ids)},
    )
    conn.execute(
        text(
            "UPDATE attempts SET running_at = COALESCE(running_at, :now), start_deadline_at = NULL,"
            " seat_deadline_at = NULL, evict_cause = NULL, evict_message = NULL"
            " WHERE unit_id = ANY(CAST(:ids AS bigint[])) AND evict_target IS NULL"
        ),
        {"ids": list(unit_ids), "now": now},
    )


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
    conn.execute(
        text(
            "UPDATE attempts SET generation = generation + 1, dispatch = 'Waiting', claimed_epoch = NULL,"
            " claimed_at = NULL, kill_at = NULL"
            " WHERE unit_id = ANY(CAST(:ids AS bigint[])) AND evict_target IS NULL"
        ),
        {"ids": list(unit_ids)},
    )


def next_deadline(
    conn: Connection, pool_id: int, *, now: datetime, patience_seconds: float
) -> datetime | None:
    """The next instant after `now` at which something falls due in this pool without anybody ringing."""
    return conn.execute(
        _NEXT_DEADLINE, {"pool_id": pool_id, "now": now, "patience": patience_seconds}
    ).scalar()


def _live(row: Row[Any]) -> LiveAttempt:
    values = dict(zip(_FIELDS, row, strict=True))
    values["status"] = Status(values["status"])
    values["places"] = places_of(values["places"])
    values["failed_nodes"] = tuple(values["failed_nodes"])
    if values["evict_target"] is not None:
        values["evict_target"] = Status(values["evict_target"])
    if values["evict_cause"] is not None:
        values["evict_cause"] = Cause(values["evict_cause"])
    return LiveAttempt(**values)


def _columns(rows: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
    return [[row[index] for row in rows] for index in range(count)]


#: The columns of `_SELECT`, in its order.
_FIELDS = (
    "unit_id", "group_id", "group_name", "is_gang", "attempt", "generation", "version", "status", "dispatch",
    "places", "admitted_at", "restarts_used", "refused_dispatches", "failed_nodes", "infrastructure_losses",
    "on_member_loss", "max_restarts", "backoff_seconds", "seat_timeout_seconds", "grace_seconds",
    "start_deadline_at", "time_limit_at", "seat_deadline_at", "stop_at", "kill_at", "evict_target",
    "evict_cause", "evict_message", "evict_backoff_seconds",
)  # fmt: skip

_SELECT = """
    SELECT a.unit_id, a.group_id, g.name AS group_name, g.scheduling = 'gang' AS is_gang, a.attempt,
           a.generation, u.version, u.status, a.dispatch, a.places, a.admitted_at, u.restarts_used,
           u.refused_dispatches, u.failed_nodes, a.infrastructure_losses, g.on_member_loss, g.max_restarts,
           g.backoff_seconds, g.seat_timeout_seconds, g.grace_seconds, a.start_deadline_at, a.time_limit_at,
           a.seat_deadline_at, a.stop_at, a.kill_at, a.evict_target, a.evict_cause, a.evict_message,
           a.evict_backoff_seconds
    FROM attempts a JOIN units u ON u.id = a.unit_id JOIN groups g ON g.id = a.group_id
    WHERE a.pool_id = :pool_id
"""

_LOAD = text(
    _SELECT
    + """
      AND (:everything OR a.dispatch <> 'Launched'
           OR LEAST(a.start_deadline_at, a.time_limit_at, a.seat_deadline_at) <= :now
           OR a.unit_id = ANY(CAST(:changed AS bigint[])))
    ORDER BY a.unit_id
"""
)

_TO_CLAIM = """
      AND a.dispatch IN ('Waiting', 'Claimed') AND a.evict_target IS NULL
      AND NOT EXISTS (
          SELECT FROM jsonb_array_elements(a.places) AS place
          WHERE CAST(place ->> 2 AS bigint) = ANY(CAST(:down AS bigint[]))
             OR EXISTS (SELECT FROM unnest(CAST(:lost_nodes AS bigint[]), CAST(:lost_devices AS int[]))
                               AS lost (node_id, device)
                        WHERE lost.node_id = CAST(place ->> 2 AS bigint)
                          AND place -> 3 @> to_jsonb(lost.device)))
    ORDER BY a.unit_id LIMIT :limit FOR NO KEY UPDATE OF a
"""
_CLAIMABLE = text(_SELECT + _TO_CLAIM)

_MARK_LAUNCHED = text("""
    UPDATE attempts a SET dispatch = 'Launched'
    FROM unnest(CAST(:units AS bigint[]), CAST(:attempts AS int[]), CAST(:generations AS int[]))
         AS v (unit_id, attempt, generation)
    WHERE a.unit_id = v.unit_id AND a.attempt = v.attempt AND a.generation = v.generation
      AND a.dispatch = 'Claimed'
""")

_LOCK_GROUPS = text("""
    SELECT id FROM groups WHERE id = ANY(CAST(:groups AS bigint[])) AND scheduling = 'independent'
    ORDER BY id FOR NO KEY UPDATE
""")

_LOCK_UNITS = text("""
    SELECT u.id AS unit_id, u.group_id, u.status, u.version, u.restarts_used, a.attempt, a.generation,
           a.dispatch, a.pool_id, a.evict_target, a.evict_cause, a.evict_message, a.evict_backoff_seconds
    FROM units u JOIN attempts a ON a.unit_id = u.id
    WHERE u.id = ANY(CAST(:ids AS bigint[])) ORDER BY u.id FOR NO KEY UPDATE OF u, a
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

_NEXT_DEADLINE = text("""
    SELECT LEAST(
        min(start_deadline_at) FILTER (WHERE start_deadline_at > :now),
        min(time_limit_at) FILTER (WHERE time_limit_at > :now),
        min(seat_deadline_at) FILTER (WHERE seat_deadline_at > :now),
        min(kill_at) FILTER (WHERE kill_at > :now),
        min(kill_at + make_interval(secs => :patience))
            FILTER (WHERE kill_at + make_interval(secs => :patience) > :now),
        (SELECT min(drain_at) FROM nodes WHERE pool_id = :pool_id AND drain_at > :now))
    FROM attempts WHERE pool_id = :pool_id
""")
