"""What launchers said last of the members that live, for the audit (R7): one value for each pool."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec
import redis

from service.inventory import keys

#: A listing that nobody renews says nothing after this.
_KEPT_SECONDS = 86_400


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Live generations of one pool as (unit, attempt, generation), as the launcher knew them at `at`."""

    pool_id: int
    at: datetime
    generations: tuple[tuple[int, int, int], ...]


def publish_listing(
    client: redis.Redis, pool_id: int, *, generations: Iterable[tuple[int, int, int]], at: datetime
) -> None:
    """Replace the pool's listing. Raises redis errors; losing one costs nothing but the audit's view."""
    listing = Listing(pool_id=pool_id, at=at, generations=tuple(sorted(set(generations))))
    client.set(keys.listing(pool_id), msgspec.msgpack.encode(listing), ex=_KEPT_SECONDS)


def read_listings(client: redis.Redis, pool_ids: Iterable[int]) -> tuple[Listing, ...]:
    """The last listing of each pool that has one."""
    names = [keys.listing(pool_id) for pool_id in pool_ids]
    values = client.mget(names) if names else []
    # redis-py's types cannot know that answers are not decoded here.
    return tuple(msgspec.msgpack.decode(value, type=Listing) for value in values if isinstance(value, bytes))
