"""Positions, as the last cycle published them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from redis import Redis, RedisError

from service.inventory.verdicts import read_queue


def find_positions(redis: Redis, queue_ids: Collection[int]) -> Mapping[int, int]:
    """Position in its queue of every group of these queues that waits and may be admitted. Empty
    while Redis is away: groups and lists go on without positions."""
    positions: dict[int, int] = {}
    try:
        for queue_id in sorted(queue_ids):
            published = read_queue(redis, queue_id)
            if published is not None:
                positions |= published.positions()
    except RedisError:
        return {}
    return positions
