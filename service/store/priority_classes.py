"""Priority classes: names for priorities."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert

from service.store.models.configuration import priority_classes


def list_priority_classes(conn: Connection) -> dict[str, int]:
    """The priority that each of them stands for, by name."""
    return {row.name: row.value for row in conn.execute(select(priority_classes))}


def put_priority_classes(conn: Connection, classes: Mapping[str, int]) -> None:
    """Add these, or give them their new values."""
    if not classes:
        return
    statement = insert(priority_classes)
    statement = statement.on_conflict_do_update(
        index_elements=["name"], set_={"value": statement.excluded.value}
    )
    conn.execute(statement, [{"name": name, "value": value} for name, value in classes.items()])


def delete_priority_classes(conn: Connection, names: Collection[str]) -> None:
    conn.execute(delete(priority_classes).where(priority_classes.c.name.in_(names)))
