"""What the audit and the inventory ask PostgreSQL besides the World's own rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupName:
    """Who a group is, for those who may know."""

    public_id: UUID
    name: str
    tenant: str
    owner: str


def load_group_names(conn: Connection, group_ids: Collection[int]) -> dict[int, GroupName]:
    rows = conn.execute(
        text("SELECT id, public_id, name, tenant, owner FROM groups WHERE id = ANY(CAST(:ids AS bigint[]))"),
        {"ids": list(group_ids)},
    )
    return {
        row.id: GroupName(public_id=row.public_id, name=row.name, tenant=row.tenant, owner=row.owner)
        for row in rows
    }


def load_closed_at(
    conn: Connection, attempts: Collection[tuple[int, int]]
) -> dict[tuple[int, int], datetime]:
    """When the ends of these (unit, attempt) were committed, as far as they were (R5)."""
    rows = conn.execute(
        text(
            "SELECT unit_id, attempt, closed_at FROM closed_attempts WHERE (unit_id, attempt) IN"
            " (SELECT * FROM unnest(CAST(:units AS bigint[]), CAST(:attempts AS int[])))"
        ),
        {"units": [unit for unit, _ in attempts], "attempts": [attempt for _, attempt in attempts]},
    )
    return {(row.unit_id, row.attempt): row.closed_at for row in rows}


def load_generations(conn: Connection) -> dict[tuple[int, int], tuple[int, datetime | None]]:
    """The generation of every live (unit, attempt), and when its dispatcher took it."""
    rows = conn.execute(text("SELECT unit_id, attempt, generation, claimed_at FROM attempts"))
    return {(row.unit_id, row.attempt): (row.generation, row.claimed_at) for row in rows}
