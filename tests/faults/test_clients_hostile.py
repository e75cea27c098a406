"""Clients that stall, lie about lengths, send garbage or take up connections: others are served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import servers
from tests.e2e.stacks import Up, data_folder
from tests.faults.attackers import ATTACKS
from tests.faults.raw_http import RawHttp
from tests.faults.stream_readers import StreamReader
from tests.faults.trial import load_on, start
from tests.faults.witness import connect

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(180), pytest.mark.slow]

#: Of anybody else, while an attack goes on. Loose: a test runs beside others.
MOST_SECONDS = 4.0
MOST_GROWTH_MIB = 250


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with servers.server_folder() as folder, data_folder(folder) as data:
        stack = start(
            data,
            MUSTER_REQUEST_HEAD_SECONDS="2",
            MUSTER_REQUEST_BODY_SECONDS="3",
            MUSTER_UNREAD_ANSWER_SECONDS="3",
        )
        with stack.client() as client:
            client.queues.create("parked", {"stop": "hold"})
        yield stack
        assert stack.stop() == 0


def _api(up: Up) -> psutil.Process:
    return psutil.Process(up.identity("api").pid)


def _unasked_groups(up: Up) -> int:
    with connect(up.data) as conn:
        row = conn.execute("SELECT count(*) FROM groups WHERE name = 'never'").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("name", list(ATTACKS))
def test_an_attack_harms_nobody_else(up: Up, tmp_path: Path, name: str) -> None:
    with load_on(up, tmp_path) as trial:
        api, http = _api(up), RawHttp(trial.client.address)
        memory = api.memory_info().rss

        async def run() -> list[float]:
            """The attack, and the answers that another client gets meanwhile."""
            attack = asyncio.create_task(ATTACKS[name](http))
            seconds = []
            while not attack.done():
                for path in ("/healthz", "/readyz", "/v1/queues"):
                    answer = await http.ask("GET", path)
                    assert answer.status == 200, (path, answer)
                    seconds.append(answer.seconds)
                await asyncio.sleep(0.1)
            await attack
            return seconds

        seconds = asyncio.run(run())
        assert max(seconds) < MOST_SECONDS, seconds
        assert api.is_running(), "the same process serves"
        assert api.memory_info().rss - memory < MOST_GROWTH_MIB << 20
        trial.assert_unharmed()
    assert _unasked_groups(up) == 0
    deadline = time.monotonic() + 10
    while len(api.net_connections()) > 50:
        assert time.monotonic() < deadline, "connections of the attack are still open"
        time.sleep(0.2)


def test_readers_that_do_not_read_cost_little_and_slow_nobody(up: Up, tmp_path: Path) -> None:
    """Streams of a group to which thousands of things happen: some readers take nothing of it."""
    with load_on(up, tmp_path) as trial:
        api, http = _api(up), RawHttp(trial.client.address)
        busy = trial.client.submit({"name": "busy", "queue": "parked"}).id
        other = trial.client.submit({"name": "quiet", "queue": "parked"}).id
        memory = api.memory_info().rss

        async def run() -> tuple[StreamReader, StreamReader, int]:
            readers = [StreamReader(busy), StreamReader(other)]
            async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
                for reader in readers:
                    tasks.create_task(reader.follow(http))
                stalled = []
                for _ in range(100):
                    stream_reader, writer = await http.connect()
                    stream_reader._transport.pause_reading()  # type: ignore[attr-defined]
                    writer.write(http.head("GET", f"/v1/groups/{busy}/events", "Accept: text/event-stream"))
                    stalled.append(writer)
                await asyncio.to_thread(_happen, up, busy, 20_000)
                await asyncio.sleep(8)
                grown = api.memory_info().rss - memory
                for group_id in (busy, other):
                    assert (await http.ask("DELETE", f"/v1/groups/{group_id}")).status == 202
                for writer in stalled:
                    writer.transport.abort()
            return readers[0], readers[1], grown

        reader, quiet, grown = asyncio.run(run())
        assert grown < MOST_GROWTH_MIB << 20
        with connect(up.data) as conn:
            rows = conn.execute(
                "SELECT e.id FROM events e JOIN groups g ON g.id = e.group_id"
                " WHERE g.public_id = %s ORDER BY e.id",
                [busy],
            ).fetchall()
        assert reader.ids == [row[0] for row in rows]
        assert len(reader.ids) > 20_000
        assert quiet.kinds == ["Submitted", "Cancelled"]
        trial.assert_unharmed()


def _happen(up: Up, group_id: str, number: int) -> None:
    """Many events of one group, as of one with thousands of members."""
    with connect(up.data) as conn:
        for _ in range(20):
            conn.execute(
                "INSERT INTO events (is_feed, at, kind, group_id, data)"
                " SELECT false, now(), 'MemberEnded', g.id, jsonb_build_object('filler', repeat('x', 300))"
                " FROM groups g, generate_series(1, %s) WHERE g.public_id = %s",
                [number // 20, group_id],
            )
            time.sleep(0.05)
