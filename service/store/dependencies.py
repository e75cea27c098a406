"""Groups that wait for the end of others: who is named, who is answered, and with what.

Order of locks (W4): whoever ends a group holds its unit, or its row if it is independent, and then locks
the rows of groups that wait for it, in id order; they all have higher ids. Whoever submits a group that
waits locks what it names one after the other, in id order, the row and then the unit. So the one sees
what the other has written, whoever is first, and neither waits in a circle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from service.domain.dependency import ANSWER, When
from service.domain.status import Cause, Status
from service.store.arrays import number_array, text_array
from service.store.copying import copy_rows
from service.store.pipe import compact, one_trip


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDependency:
    group_id: int
    on_group_id: int
    when: When


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGroup:
    """A group that somebody names in `after`."""

    id: int
    tenant: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverMet:
    """A group of which one entry of `after` cannot hold any more: that of `on` (a public id)."""

    group_id: int
    on: UUID
    when: When


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependents:
    """Groups to which an end means something. `met`: it is what they waited for."""

    met: frozenset[int]
    never: tuple[NeverMet, ...]

    def group_ids(self) -> set[int]:
        return {*self.met, *(each.group_id for each in self.never)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRow:
    """A waiting row of a group that was answered."""

    unit_id: int
    group_id: int
    attempt: int
    first_index: int
    last_index: int
    open_dependencies: int


def insert_dependencies(conn: Connection, dependencies: Iterable[NewDependency]) -> None:
    copy_rows(
        conn,
        "group_dependencies",
        columns=("group_id", "on_group_id", "condition"),
        rows=((each.group_id, each.on_group_id, each.when.value) for each in dependencies),
    )


def find_named(conn: Connection, public_ids: Collection[UUID]) -> dict[UUID, NamedGroup]:
    """Those of these groups that there are."""
    rows = conn.execute(
        text(
            "SELECT public_id, id, tenant, owner FROM groups"
            " WHERE public_id = ANY(CAST(:public_ids AS uuid[]))"
        ),
        {"public_ids": list(public_ids)},
    )
    return {row.public_id: NamedGroup(id=row.id, tenant=row.tenant, owner=row.owner) for row in rows}


def lock_named(conn: Connection, group_ids: Collection[int]) -> frozenset[int]:
    """Have these groups neither end nor be dropped before the transaction ends. Returns those that are
    still there."""
    with one_trip(conn) as pipe:
        locked = []
        for group_id in sorted(group_ids):
            locked.append(pipe.run(_LOCK_GROUP, group_id))
            # An independent group ends under the lock of its row, a gang under that of its unit alone.
            pipe.run(_LOCK_GANG, group_id)
    return frozenset(row[0] for answer in locked for row in answer)


def find_ended(conn: Connection, group_ids: Collection[int]) -> dict[int, Status]:
    """How those of these groups have ended of which every unit has, and for which somebody waits."""
    with one_trip(conn) as pipe:
        ended = pipe.run(_ENDED, number_array(sorted(set(group_ids))))
    return {group_id: Status(status) for group_id, status in ended}


def find_dependents(conn: Connection, ended: Mapping[int, Status]) -> Dependents:
    """What these ends mean to those that wait for them; and what it means to those that wait for whom it
    ends, and so on: one look, however long the chain is."""
    with one_trip(conn) as pipe:
        # A plan that was made while the tables were small would read them whole.
        pipe.run(_BY_INDEX)
        found = pipe.run(_DEPENDENTS, number_array(ended), text_array(each.value for each in ended.values()))
    rows = found.fetchall()
    return Dependents(
        met=frozenset(group_id for group_id, on, _ in rows if on is None),
        never=tuple(
            NeverMet(group_id=group_id, on=on, when=When(condition))
            for group_id, on, condition in rows
            if on is not None
        ),
    )


def lock_dependents(conn: Connection, group_ids: Collection[int]) -> None:
    with one_trip(conn) as pipe:
        pipe.run(_LOCK_GROUPS, number_array(sorted(group_ids)))


def set_met(
    conn: Connection, ended: Mapping[int, Status], *, group_ids: Collection[int], now: datetime
) -> list[ChangedRow]:
    """Count down what these locked groups wait for. What waits for nothing more begins to wait for
    places. The rows that changed."""
    with one_trip(conn) as pipe:
        changed = pipe.run(
            _MET,
            number_array(ended),
            text_array(each.value for each in ended.values()),
            number_array(sorted(group_ids)),
            now,
        )
    return [ChangedRow(**dict(zip(_CHANGED, row, strict=True))) for row in changed]


def cancel_never_met(conn: Connection, never: Sequence[NeverMet], *, now: datetime) -> list[ChangedRow]:
    """Locked groups end before they began. The rows that changed."""
    with one_trip(conn) as pipe:
        changed = pipe.run(
            _CANCEL,
            number_array(each.group_id for each in never),
            text_array(str(each.on) for each in never),
            text_array(each.when.value for each in never),
            now,
        )
    return [ChangedRow(**dict(zip(_CHANGED, row, strict=True))) for row in changed]


_CHANGED = ("unit_id", "group_id", "attempt", "first_index", "last_index", "open_dependencies")

_LOCK_GROUP = compact("SELECT id FROM groups WHERE id = $1 FOR SHARE")
_LOCK_GANG = compact("""
    SELECT FROM units u JOIN groups g ON g.id = u.group_id
    WHERE u.group_id = $1 AND u.ended_at IS NULL AND g.scheduling = 'gang' FOR SHARE OF u
""")
_LOCK_GROUPS = compact("""
    SELECT FROM groups WHERE id = ANY(CAST($1 AS bigint[])) ORDER BY id FOR NO KEY UPDATE
""")
_BY_INDEX = compact("SELECT set_config('enable_seqscan', 'off', true)")

#: The status of a whole group, of which no unit is left: see `group_status`.
_ENDED = compact("""
    SELECT u.group_id, CASE WHEN bool_or(u.status = 'Cancelled') THEN 'Cancelled'
                            WHEN bool_or(u.status = 'Failed') THEN 'Failed' ELSE 'Succeeded' END
    FROM units u
    WHERE u.group_id = ANY(ARRAY(
        SELECT e.id FROM unnest(CAST($1 AS bigint[])) AS e (id)
        WHERE EXISTS (SELECT FROM group_dependencies d WHERE d.on_group_id = e.id AND d.met_at IS NULL)
          AND NOT EXISTS (SELECT FROM units x WHERE x.group_id = e.id AND x.ended_at IS NULL)))
    GROUP BY u.group_id
""")

_HOLDS = "(d.condition = 'any' OR e.outcome = CASE d.condition {cases} END)".format(
    cases=" ".join(f"WHEN '{when.value}' THEN '{status.value}'" for when, status in ANSWER.items())
)
#: Who has ended was answered by whoever ended it. A sub-select is asked for each entry by itself; EXISTS may
#: be turned into a join with all that waits.
_WAITS = "(SELECT true FROM units u WHERE u.group_id = d.group_id AND u.ended_at IS NULL LIMIT 1)"
_GIVEN = "SELECT * FROM unnest(CAST($1 AS bigint[]), CAST($2 AS text[])) AS e (group_id, outcome)"

#: $1 groups that ended, $2 how. OFFSET keeps each step of a chain from joining anything but its own entries.
_DEPENDENTS = compact(
    f"""
    WITH RECURSIVE given AS MATERIALIZED ({_GIVEN}), never (group_id, on_group_id, condition) AS (
        SELECT d.group_id, d.on_group_id, d.condition
        FROM given e JOIN group_dependencies d ON d.on_group_id = e.group_id
        WHERE d.met_at IS NULL AND NOT {_HOLDS} AND {_WAITS}
      UNION
        SELECT d.group_id, d.on_group_id, d.condition
        FROM never n CROSS JOIN LATERAL (
            SELECT * FROM group_dependencies d
            WHERE d.on_group_id = n.group_id AND d.met_at IS NULL AND d.condition <> 'any' AND {_WAITS}
            OFFSET 0) AS d
    ), first AS (
        SELECT DISTINCT ON (group_id) group_id, on_group_id, condition FROM never
        ORDER BY group_id, on_group_id
    )
    SELECT f.group_id, g.public_id, f.condition FROM first f JOIN groups g ON g.id = f.on_group_id
    UNION ALL
    SELECT DISTINCT d.group_id, CAST(NULL AS uuid), CAST(NULL AS text)
    FROM (SELECT group_id, outcome FROM given UNION ALL SELECT group_id, 'Cancelled' FROM first) AS e
    JOIN group_dependencies d ON d.on_group_id = e.group_id
    WHERE d.met_at IS NULL AND {_HOLDS} AND {_WAITS}
      AND NOT EXISTS (SELECT FROM first f WHERE f.group_id = d.group_id)
    """  # noqa: S608
)

#: $1 groups that ended, $2 how, $3 who is answered, $4 now. What falls to the owner's own wish for an
#: instant is no waiting for places either.
_MET = compact(
    f"""
    WITH marked AS (
        UPDATE group_dependencies d SET met_at = $4
        FROM ({_GIVEN}) AS e
        WHERE d.on_group_id = e.group_id AND d.group_id = ANY(CAST($3 AS bigint[])) AND d.met_at IS NULL
          AND {_HOLDS}
        RETURNING d.group_id
    ), met AS (
        SELECT group_id, CAST(count(*) AS int) AS count FROM marked GROUP BY group_id
    )
    UPDATE units u
    SET version = u.version + 1, open_dependencies = NULLIF(u.open_dependencies - met.count, 0),
        waiting_since = CASE WHEN u.open_dependencies = met.count THEN GREATEST($4, g.not_before_at)
                             ELSE u.waiting_since END
    FROM met JOIN groups g ON g.id = met.group_id
    WHERE u.group_id = met.group_id AND u.ended_at IS NULL
    RETURNING u.id, u.group_id, u.attempt, u.first_index, u.last_index, COALESCE(u.open_dependencies, 0)
    """  # noqa: S608
)

#: $1 groups, $2 and $3 the entry of `after` that cannot hold, $4 now.
_CANCEL = compact(
    f"""
    UPDATE units u
    SET status = 'Cancelled', version = u.version + 1, ended_at = $4, cause = '{Cause.DEPENDENCY_NEVER_MET}',
        message = format('its after can never hold: group %s (when: %s)', v.on_id, v.condition),
        is_held = false, held_at = NULL, backoff_until = NULL
    FROM unnest(CAST($1 AS bigint[]), CAST($2 AS text[]), CAST($3 AS text[]))
         AS v (group_id, on_id, condition)
    WHERE u.group_id = v.group_id AND u.ended_at IS NULL AND u.status = 'Pending'
    RETURNING u.id, u.group_id, u.attempt, u.first_index, u.last_index, COALESCE(u.open_dependencies, 0)
    """  # noqa: S608
)
