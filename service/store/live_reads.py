"""What of a group lives now, and what its closed attempts left."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from service.domain.node import Place
from service.store.places import places_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveUnit:
    """An attempt that lives: where it is, and its deadlines."""

    unit_id: int
    attempt: int
    generation: int
    pool: str
    is_unreachable: bool
    places: tuple[Place, ...]
    dispatches: int
    admitted_at: datetime
    running_at: datetime | None
    time_limit_at: datetime | None
    dropping: tuple[int, ...] = ()

    @property
    def present(self) -> tuple[Place, ...]:
        """Places of the members that it has, without those that it is giving up."""
        return tuple(place for place in self.places if place.member not in self.dropping)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Members that have a place, without those that are given up, and their GPUs."""

    members: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedNode:
    """A node on which a group has places. `levels`: of its pool, outermost first."""

    name: str
    labels: Mapping[str, str]
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What the closed attempts of a group add up to. `generation` is the last one of the newest."""

    dispatches: int
    attempt: int | None
    generation: int | None
    running_at: datetime | None


def list_live_attempts(conn: Connection, group_id: int) -> list[LiveUnit]:
    """Live attempts of the group's units, in the order of their members."""
    rows = conn.execute(
        text(
            "SELECT a.unit_id, a.attempt, a.generation, p.name AS pool,"
            " p.unreachable_at IS NOT NULL AS is_unreachable, a.places, a.dispatches, a.admitted_at,"
            " a.running_at, a.time_limit_at, coalesce(a.dropping, '{}') AS dropping"
            " FROM units u JOIN attempts a ON a.unit_id = u.id JOIN pools p ON p.id = a.pool_id"
            " WHERE u.group_id = :group_id ORDER BY a.unit_id"
        ),
        {"group_id": group_id},
    )
    return [
        LiveUnit(**(row._asdict() | {"places": places_of(row.places), "dropping": tuple(row.dropping)}))
        for row in rows
    ]


def load_sizes(conn: Connection, group_ids: Collection[int]) -> dict[int, Size]:
    """Of those of these groups that hold something."""
    if not group_ids:
        return {}
    rows = conn.execute(
        text(
            "SELECT a.group_id, count(*) AS members, sum(jsonb_array_length(p.place -> 3)) AS gpus"
            " FROM attempts a, jsonb_array_elements(a.places) AS p (place)"
            " WHERE a.group_id = ANY(:ids)"
            " AND (p.place ->> 0)::int <> ALL(coalesce(a.dropping, '{}')) GROUP BY a.group_id"
        ),
        {"ids": list(group_ids)},
    )
    return {row.group_id: Size(members=row.members, gpus=int(row.gpus)) for row in rows}


def get_past(conn: Connection, group_id: int) -> Past:
    """Totals over the closed attempts; zero and None if there is none."""
    row = conn.execute(
        text(
            "SELECT coalesce(sum(dispatches), 0) AS dispatches, max(attempt) AS attempt,"
            " (array_agg(generation ORDER BY attempt DESC))[1] AS generation,"
            " (array_agg(running_at ORDER BY attempt DESC))[1] AS running_at"
            " FROM closed_attempts WHERE group_id = :group_id"
        ),
        {"group_id": group_id},
    ).one()
    return Past(**(row._asdict() | {"dispatches": int(row.dispatches)}))


def count_succeeded_members(conn: Connection, group_id: int) -> int:
    """Members that ended with exit code 0 in the present attempt (and generation) of their unit."""
    count = conn.execute(
        text(
            "SELECT count(*) FROM units u JOIN member_ends e ON e.unit_id = u.id AND e.attempt = u.attempt"
            " LEFT JOIN attempts a ON a.unit_id = u.id AND a.attempt = u.attempt"
            " LEFT JOIN closed_attempts c ON c.unit_id = u.id AND c.attempt = u.attempt"
            " WHERE u.group_id = :group_id AND e.exit_code = 0"
            " AND e.generation = coalesce(a.generation, c.generation)"
        ),
        {"group_id": group_id},
    ).scalar_one()
    return int(count)


def load_node_names(conn: Connection, node_ids: Sequence[int]) -> dict[int, str]:
    rows = conn.execute(text("SELECT id, name FROM nodes WHERE id = ANY(:ids)"), {"ids": list(node_ids)})
    return {row.id: row.name for row in rows}


def load_used_nodes(conn: Connection, node_ids: Sequence[int]) -> dict[int, UsedNode]:
    rows = conn.execute(
        text(
            "SELECT n.id, n.name, n.labels, p.levels FROM nodes n JOIN pools p ON p.id = n.pool_id"
            " WHERE n.id = ANY(:ids)"
        ),
        {"ids": list(node_ids)},
    )
    return {row.id: UsedNode(name=row.name, labels=row.labels, levels=tuple(row.levels)) for row in rows}
