"""One after the other, and so many that wait."""

from __future__ import annotations

import asyncio

import pytest

from service.api.problems import TooManyRequests
from service.api.turns import Turns


class Work:
    """Takes turns, each of which lasts until it is let go."""

    def __init__(self, *, most: int) -> None:
        self.turns = Turns(most=most)
        self.under_way = 0
        self.done = 0
        self.go_on = asyncio.Event()

    async def do(self) -> None:
        async with self.turns.turn():
            self.under_way += 1
            assert self.under_way == 1
            try:
                await self.go_on.wait()
            finally:
                self.under_way -= 1
            self.done += 1


async def _begun(work: Work, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(work.do()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def test_one_after_the_other_and_who_finds_too_many_is_refused() -> None:
    async def play() -> None:
        work = Work(most=2)
        tasks = await _begun(work, 3)
        with pytest.raises(TooManyRequests, match="2 requests"):
            await work.do()
        work.go_on.set()
        await asyncio.gather(*tasks)
        await work.do()
        assert work.done == 4

    asyncio.run(play())


def test_who_leaves_gives_up_its_turn() -> None:
    async def play() -> None:
        work = Work(most=1)
        running, waiting = await _begun(work, 2)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        (another,) = await _begun(work, 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        work.go_on.set()
        await another
        assert work.done == 1

    asyncio.run(play())
