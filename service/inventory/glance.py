"""A look at what Redis says of itself, before anything is built on what is remembered of it."""

from __future__ import annotations

from typing import NamedTuple

import redis

from service.inventory import keys
from service.inventory.ledger import STAMP_FIELDS, stamp_of
from service.inventory.state import Stamp


class Glance(NamedTuple):
    """`stamp` of the ledger; `published`: epoch and cycle of the newest publication. None for none."""

    stamp: Stamp | None
    published: tuple[int, int] | None


def glance(client: redis.Redis) -> Glance:
    """Both in one round trip."""
    with client.pipeline(transaction=False) as pipe:
        pipe.hmget(keys.LEDGER, STAMP_FIELDS)
        pipe.hmget(keys.VERDICT_FENCE, ("epoch", "cycle"))
        stamp, (epoch, cycle) = pipe.execute()
    return Glance(stamp_of(stamp), None if epoch is None or cycle is None else (int(epoch), int(cycle)))
