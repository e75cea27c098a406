"""What queues hold and what they are asked for, by resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, text

from service.domain.resources import CPUS, MEMORY
from service.domain.shape import Shape

#: GPUs for which a group names no model.
ANY_MODEL = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits in a queue: how many groups, and what they ask for, by resource."""

    groups: int
    amounts: Mapping[str, int]


def used_by_queue(conn: Connection) -> dict[int, dict[str, int]]:
    """Amounts that live attempts hold, by queue and resource."""
    rows = conn.execute(
        text(
            "SELECT queue_id, resource, sum(amount::bigint)::bigint AS amount"
            " FROM attempts, jsonb_each_text(usage) AS used (resource, amount) GROUP BY 1, 2"
        )
    )
    used: dict[int, dict[str, int]] = {}
    for row in rows:
        used.setdefault(row.queue_id, {})[row.resource] = row.amount
    return used


def waiting_by_queue(conn: Connection) -> dict[int, Waiting]:
    """Groups with a waiting unit, and what their waiting units ask for, by queue.

    GPUs count for the first model that a role names, or for ANY_MODEL if it names none.
    """
    rows = conn.execute(
        text(
            "SELECT w.queue_id, w.groups, w.units, s.shape FROM ("
            "  SELECT g.queue_id, g.shape_id, count(DISTINCT g.id) AS groups,"
            "         sum(CASE g.scheduling WHEN 'gang' THEN 1"
            "             ELSE u.last_index - u.first_index + 1 END)::bigint AS units"
            "  FROM units u JOIN groups g ON g.id = u.group_id"
            "  WHERE u.status = 'Pending' AND u.ended_at IS NULL GROUP BY 1, 2"
            ") w JOIN shapes s ON s.id = w.shape_id"
        )
    )
    groups: dict[int, int] = {}
    amounts: dict[int, dict[str, int]] = {}
    for row in rows:
        groups[row.queue_id] = groups.get(row.queue_id, 0) + row.groups
        total = amounts.setdefault(row.queue_id, {})
        for resource, amount in asked_by(msgspec.convert(row.shape, Shape)).items():
            total[resource] = total.get(resource, 0) + amount * row.units
    return {queue_id: Waiting(groups=groups[queue_id], amounts=amounts[queue_id]) for queue_id in groups}


def asked_by(shape: Shape) -> dict[str, int]:
    """What one unit of this shape asks for, by resource."""
    total = shape.total()
    asked = {CPUS: total.cpus_milli, MEMORY: total.memory_mib}
    for role in shape.roles:
        if role.requests.gpus:
            model = role.models[0] if role.models else ANY_MODEL
            members = role.count if shape.is_gang else 1
            asked[model] = asked.get(model, 0) + role.requests.gpus * members
    return asked
