"""Which queues a submission may name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class OpenQueue:
    """A queue that takes groups; `tenant` None takes everybody's."""

    id: int
    name: str
    tenant: str | None


def find_queues(conn: Connection, names: Collection[str]) -> dict[str, OpenQueue]:
    """The queues of these names, by name. They cannot be deleted before the transaction ends."""
    rows = conn.execute(
        text(
            "SELECT id, name, tenant FROM queues WHERE name = ANY(:names) AND deleted_at IS NULL"
            " FOR KEY SHARE"
        ),
        {"names": list(names)},
    )
    return {row.name: OpenQueue(row.id, row.name, row.tenant) for row in rows}
