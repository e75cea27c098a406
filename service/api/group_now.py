"""A group as it is now, from both stores."""

from __future__ import annotations

from uuid import UUID

from service.api.deps import Parts
from service.api.schemas.group_answer import GroupAnswer, group_answer
from service.domain.principal import Principal
from service.operations.positions import find_positions
from service.operations.read_groups import get_group


def answer_of(public_id: UUID, parts: Parts, principal: Principal) -> GroupAnswer:
    """Raises NotFound."""
    detail = get_group(parts.engine, public_id, principal=principal)
    is_waiting = detail.units.is_waiting
    positions = find_positions(parts.redis, [detail.group.queue_id]) if is_waiting else {}
    return group_answer(detail, positions.get(detail.group.id))
