"""Ids for groups that a test writes itself."""

from __future__ import annotations

from sqlalchemy import Connection, text


def new_group_ids(conn: Connection, count: int) -> list[int]:
    """Ascending, and nobody else's."""
    numbers = text("SELECT nextval('groups_id_seq') FROM generate_series(1, :count)")
    return sorted(conn.execute(numbers, {"count": count}).scalars())
