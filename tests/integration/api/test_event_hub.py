"""What listeners of a process are told, and what they are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from service.api.controllers.events import tell_events
from service.api.event_hub import EventHub
from service.api.problems import TooManyRequests


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


def test_a_listener_that_falls_behind_is_not_told_that_the_group_has_ended(
    engine: Engine, group_id: int
) -> None:
    async def fall_behind() -> bytes:
        hub = EventHub(engine, most=5, most_behind=3)
        content = tell_events(hub, hub.join(group_id, after=0), is_gang=True)
        await anext(content)
        assert b"event: Submitted" in await anext(content)
        add_events(engine, group_id, 5)
        await asyncio.sleep(1)
        rest = await asyncio.wait_for(rest_of(content), 5)
        await hub.close()
        return rest

    assert asyncio.run(fall_behind()) == b""


def test_a_stop_of_the_process_is_not_the_end_of_the_group(engine: Engine, group_id: int) -> None:
    async def stop() -> bytes:
        hub = EventHub(engine, most=5)
        content = tell_events(hub, hub.join(group_id, after=0), is_gang=True)
        await anext(content)
        assert b"event: Submitted" in await anext(content)
        await hub.close()
        return await asyncio.wait_for(rest_of(content), 5)

    assert asyncio.run(stop()) == b""


def test_a_bell_is_never_behind(engine: Engine, group_id: int) -> None:
    async def ring() -> int:
        hub = EventHub(engine, most=5, most_behind=3)
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
        hub = EventHub(engine, most=2)
        held = [hub.join(group_id, after=0) for _ in range(2)]
        with pytest.raises(TooManyRequests):
            hub.join(group_id, after=0)
        # An answer that nobody reads is dropped before it begins.
        content = tell_events(hub, held.pop(), is_gang=True)
        await content.aclose()
        del content
        hub.join(group_id, after=0)

    asyncio.run(burst())
