"""A Redis client that looks at the ledger after each of its writes.

It is redis-py's own client: nothing is replaced, every script runs on the real server. After a
script it reads what is held, so that peaks between two steps are seen too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis
from redis.client import Pipeline

from service.inventory.keys import VERDICT_FENCE


class WatchedRedis(redis.Redis):
    """`on_script` is called after every script or pipeline of scripts; `published` counts values of
    readers that were replaced."""

    on_script: Callable[[], None] = staticmethod(lambda: None)
    published = 0

    def execute_command(self, *args: Any, **options: Any) -> Any:
        answer: Any = super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        if args[0] in ("EVALSHA", "EVAL"):
            if args[3] == VERDICT_FENCE and answer == 1:
                self.published += int(args[2]) - 1
            self.on_script()
        return answer

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        pipe = WatchedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipe.on_script = self.on_script
        return pipe


class WatchedPipeline(Pipeline):
    on_script: Callable[[], None] = staticmethod(lambda: None)

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        has_script = any(command[0][0] == "EVALSHA" for command in self.command_stack)
        answers: list[Any] = super().execute(raise_on_error)
        if has_script:
            self.on_script()
        return answers


def watched(url: str) -> WatchedRedis:
    client = WatchedRedis.from_url(url)
    assert isinstance(client, WatchedRedis)
    return client
