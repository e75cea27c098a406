"""Do the two stores answer?"""

from __future__ import annotations

from redis import Redis, RedisError
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.domain.errors import InventoryUnavailable, StoreUnavailable


def check(engine: Engine, redis: Redis) -> None:
    """Raise StoreUnavailable or InventoryUnavailable; the message names each that does not answer."""
    store, inventory = is_store_up(engine), is_inventory_up(redis)
    if not store and not inventory:
        raise StoreUnavailable("PostgreSQL and Redis do not answer.")
    if not store:
        raise StoreUnavailable("PostgreSQL does not answer.")
    if not inventory:
        raise InventoryUnavailable("Redis does not answer.")


def is_store_up(engine: Engine) -> bool:
    """Also that the schema is there."""
    try:
        with engine.connect() as conn:
            conn.execute(text("SELECT version FROM config"))
    except (DBAPIError, PoolTimeout):
        return False
    return True


def is_inventory_up(redis: Redis) -> bool:
    try:
        redis.ping()
    except RedisError:
        return False
    return True
