"""Ends of members, each recorded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from service.store.pipe import Pipe, compact, json_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEnd:
    """`exit_code` None: lost without one. `ended_at` is the launcher's instant."""

    unit_id: int
    attempt: int
    generation: int
    member: int
    exit_code: int | None
    ended_at: datetime
    detail: str | None = None

    @property
    def key(self) -> tuple[int, int, int, int]:
        return (self.unit_id, self.attempt, self.generation, self.member)


def send_member_ends(pipe: Pipe, ends: Sequence[MemberEnd], *, now: datetime) -> None:
    """Record ends, each with its event. One that is known already is neither recorded nor told again."""
    pipe.run(_ADD, json_rows(ends), now)


def load_member_ends(conn: Connection, keys: Sequence[tuple[int, int, int]]) -> list[MemberEnd]:
    """The recorded ends of these (unit, attempt, generation)."""
    rows = conn.execute(
        _LOAD,
        {
            "units": [key[0] for key in keys],
            "attempts": [key[1] for key in keys],
            "generations": [key[2] for key in keys],
        },
    )
    return [MemberEnd(**row._mapping) for row in rows]


#: $1 rows of MemberEnd, $2 now.
_ADD = compact("""
    WITH new AS (
        INSERT INTO member_ends (unit_id, attempt, generation, member, exit_code, ended_at, detail)
        SELECT unit_id, attempt, generation, member, exit_code, ended_at, detail
        FROM json_to_recordset(CAST($1 AS json))
            AS v (unit_id bigint, attempt int, generation int, member int, exit_code int,
                  ended_at timestamptz, detail text)
        ON CONFLICT DO NOTHING
        RETURNING unit_id, attempt, generation, member, exit_code, ended_at
    )
    INSERT INTO events (is_feed, at, kind, actor, group_id, unit_id, attempt, generation, data)
    SELECT false, $2, 'MemberEnded', 'muster', unit_id >> 20, unit_id, attempt, generation,
           jsonb_build_object('member', member, 'exit_code', exit_code, 'ended_at', ended_at)
    FROM new
""")

_LOAD = text("""
    SELECT e.unit_id, e.attempt, e.generation, e.member, e.exit_code, e.ended_at, e.detail
    FROM unnest(CAST(:units AS bigint[]), CAST(:attempts AS int[]), CAST(:generations AS int[]))
         AS v (unit_id, attempt, generation)
    JOIN member_ends e USING (unit_id, attempt, generation)
""")
