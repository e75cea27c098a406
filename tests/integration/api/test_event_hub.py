"""What listeners of a process are told, and what they are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, event, text

from service.api.controllers.events import tell_events
from service.api.event_hub import EventHub
from service.api.problems import TooManyRequests
from service.api.refusals import Refusals


@pytest.fixture
def group_id(admin: TestClient[Litestar], engine: Engine) -> int:
    admin.post("/v1/groups", json={"name": "g", "gpus": 1}).raise_for_status()
    with engine.connect() as conn:
        return int(conn.execute(text("SELECT id FROM groups")).scalar_one())


def add_events(engine: Engine, group_id: int, number: int) -> None:
    with engine.begin() as conn:
        conn.execute(
            text(
                "INSERT INTO events (is_feed, at, kind, group_id)"
                " SELECT false, now(), 'Held', :group FROM generate_series(1, :number)"
            ),
            {"group": group_id, "number": number},
        )


async def rest_of(content: AsyncGenerator[bytes]) -> bytes:
    return b"".join([part async for part in content])


def test_a_listener_that_falls_behind_is_kept_little_for_and_misses_nothing(
    admin: TestClient[Litestar], engine: Engine, group_id: int
) -> None:
    async def fall_behind() -> tuple[int, list[int]]:
        hub = EventHub(engine, Refusals(), most=5, most_behind=3)
        listener = hub.join(group_id, after=0)
        told = hub.listen(listener, patience=5)
        assert await anext(told) is not None
        most_kept = 0
        for _ in range(4):
            add_events(engine, group_id, 2)
            await asyncio.sleep(0.4)
            most_kept = max(most_kept, len(listener.events))
        (public_id,) = [each["id"] for each in admin.get("/v1/groups").json()["groups"]]
        await asyncio.to_thread(lambda: admin.delete(f"/v1/groups/{public_id}").raise_for_status())
        ids = [row.id async for rows in told for row in rows or ()]
        await hub.close()
        return most_kept, ids

    most_kept, ids = asyncio.run(fall_behind())
    with engine.connect() as conn:
        every = conn.execute(text("SELECT id FROM events ORDER BY id")).scalars().all()
    assert ids == every[1:]
    assert len(ids) == 9
    assert 0 < most_kept <= 3


def test_a_look_asks_once_for_all_streams(engine: Engine, group_id: int) -> None:
    statements: list[str] = []

    @event.listens_for(engine, "before_cursor_execute")
    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    async def look() -> tuple[int, int, int]:
        hub = EventHub(engine, Refusals(), most=500)
        streams = [hub.listen(hub.join(group_id, after=0), patience=5) for _ in range(300)]
        assert all(rows and rows[0].kind == "Submitted" for rows in await gather_next(streams))
        first = len(statements)
        await asyncio.sleep(0.6)
        quiet = len(statements) - first
        add_events(engine, group_id, 1)
        before = len(statements)
        await gather_next(streams)
        busy = len(statements) - before
        for stream in streams:
            await stream.aclose()
        await hub.close()
        return first, quiet, busy

    async def gather_next(streams: list[Any]) -> list[Any]:
        return await asyncio.gather(*(anext(stream) for stream in streams))

    first, quiet, busy = asyncio.run(look())
    assert (first, busy) <= (3, 5)
    assert 1 <= quiet <= 5


def test_a_stop_of_the_process_is_not_the_end_of_the_group(engine: Engine, group_id: int) -> None:
    async def stop() -> bytes:
        hub = EventHub(engine, Refusals(), most=5)
        content = tell_events(hub, hub.join(group_id, after=0), is_gang=True)
        await anext(content)
        assert b"event: Submitted" in await anext(content)
        await hub.close()
        return await asyncio.wait_for(rest_of(content), 5)

    assert asyncio.run(stop()) == b""


def test_a_bell_is_never_behind(engine: Engine, group_id: int) -> None:
    async def ring() -> int:
        hub = EventHub(engine, Refusals(), most=5, most_behind=3)
        listener = hub.join(group_id, after=0, is_bell=True)
        rings = hub.listen(listener, patience=5)
        await anext(rings)
        for _ in range(2):
            add_events(engine, group_id, 5)
            await asyncio.sleep(0.6)
        rows = await anext(rings)
        await rings.aclose()
        await hub.close()
        assert rows is not None
        return len(rows)

    assert asyncio.run(ring()) == 1


def test_a_burst_gets_no_more_places_than_there_are(engine: Engine, group_id: int) -> None:
    async def burst() -> None:
        hub = EventHub(engine, Refusals(), most=2)
        held = [hub.join(group_id, after=0) for _ in range(2)]
        with pytest.raises(TooManyRequests):
            hub.join(group_id, after=0)
        # An answer that nobody reads is dropped before it begins.
        content = tell_events(hub, held.pop(), is_gang=True)
        await content.aclose()
        del content
        hub.join(group_id, after=0)

    asyncio.run(burst())
