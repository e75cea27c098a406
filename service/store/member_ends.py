"""Ends of members, each recorded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text


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


def add_member_ends(conn: Connection, ends: Sequence[MemberEnd]) -> set[tuple[int, int, int, int]]:
    """Record ends; the keys of those that were not known yet. A repeated report is a no-op."""
    if not ends:
        return set()
    rows = conn.execute(
        _ADD,
        {
            "units": [end.unit_id for end in ends],
            "attempts": [end.attempt for end in ends],
            "generations": [end.generation for end in ends],
            "members": [end.member for end in ends],
            "codes": [end.exit_code for end in ends],
            "instants": [end.ended_at for end in ends],
            "details": [end.detail for end in ends],
        },
    )
    return {(row.unit_id, row.attempt, row.generation, row.member) for row in rows}


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


_ADD = text("""
    INSERT INTO member_ends (unit_id, attempt, generation, member, exit_code, ended_at, detail)
    SELECT * FROM unnest(CAST(:units AS bigint[]), CAST(:attempts AS int[]), CAST(:generations AS int[]),
                         CAST(:members AS int[]), CAST(:codes AS int[]), CAST(:instants AS timestamptz[]),
                         CAST(:details AS text[]))
    ON CONFLICT DO NOTHING
    RETURNING unit_id, attempt, generation, member
""")

_LOAD = text("""
    SELECT e.unit_id, e.attempt, e.generation, e.member, e.exit_code, e.ended_at, e.detail
    FROM unnest(CAST(:units AS bigint[]), CAST(:attempts AS int[]), CAST(:generations AS int[]))
         AS v (unit_id, attempt, generation)
    JOIN member_ends e USING (unit_id, attempt, generation)
""")
