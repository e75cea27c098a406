"""The record of a group, for readers."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Engine

from service.domain.principal import Principal
from service.operations.read_groups import get_visible_group, reading
from service.store.event_reads import EventRow, list_events
from service.store.group_reads import GroupRow


def list_group_events(
    engine: Engine, public_id: UUID, *, principal: Principal, after: int, limit: int
) -> tuple[GroupRow, list[EventRow], int | None]:
    """Events with an id above `after`, and the id to go on from if there are more. Raises NotFound."""
    with reading(engine) as conn:
        group = get_visible_group(conn, public_id, principal=principal)
        rows = list_events(conn, group.id, after=after, limit=limit + 1)
    return group, rows[:limit], rows[limit - 1].id if len(rows) > limit else None
