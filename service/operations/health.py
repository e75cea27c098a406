"""Do the two stores answer?"""

from __future__ import annotations

from redis import Redis, RedisError

from service.domain.errors import InventoryUnavailable, StoreUnavailable
from service.store.pulse import Pulse

#: With the half second that Redis has, an answer within two seconds.
_PATIENCE_SECONDS = 1.4


def check(pulse: Pulse, redis: Redis) -> None:
    """Raise StoreUnavailable or InventoryUnavailable; the message names each that does not answer.
    PostgreSQL has to hold the schema, too."""
    store, inventory = pulse.is_ready(seconds=_PATIENCE_SECONDS), is_inventory_up(redis)
    if not store and not inventory:
        raise StoreUnavailable("PostgreSQL and Redis do not answer.")
    if not store:
        raise StoreUnavailable("PostgreSQL does not answer.")
    if not inventory:
        raise InventoryUnavailable("Redis does not answer.")


def is_inventory_up(redis: Redis) -> bool:
    try:
        redis.ping()
    except RedisError:
        return False
    return True
