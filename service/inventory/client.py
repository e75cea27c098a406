"""Connections to Redis. Retries are off everywhere: redis-py repeats a command whose reply was
lost up to ten times, and a script that ran nine times is not what its caller asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from service.domain.errors import InventoryUnavailable


def make_client(url: str, *, timeout_seconds: float = 0.5) -> redis.Redis:
    """A pooled client for short commands. Raises redis errors on use when the server is away;
    a connection with an unread answer is closed, never handed to the next reader."""
    return redis.Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        decode_responses=False,
    )


def make_blocking_client(url: str) -> redis.Redis:
    """A client for a thread of its own that blocks in BLPOP. Give BLPOP a timeout of a second or
    more: the server looks at short ones only ten times a second."""
    return redis.Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=None,
        socket_connect_timeout=1.0,
        decode_responses=False,
    )


@contextmanager
def inventory_errors() -> Iterator[None]:
    """Turn redis-py's connection errors into the domain's InventoryUnavailable."""
    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise InventoryUnavailable("Redis does not answer") from error
