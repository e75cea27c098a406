"""Case 041: an inventory read cancelled half way does not give its answer to the next reader."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from service.inventory import keys
from service.inventory.client import make_client
from service.inventory.ledger import Ledger
from tests.scenarios import steps
from tests.scenarios.scenario import Scenario
from tests.scenarios.stage import Stage
from workers.embedded.valkey import ValkeyServer

_BODY = {
    "id": "041",
    "kind": "timeline",
    "cluster": {"nodes": [{"name": "n1", "gpus": 8}, {"name": "n2", "gpus": 8}]},
    "queues": [{"name": "q1", "nominal_quota": {"mx": 16}}],
    "timeline": [],
}
_CANCEL_AFTER_SECONDS = 0.02
_READERS = 20


class Cancelled(BaseException):
    """What a reader is told in the middle of its read: no Exception, as asyncio's is none."""


@pytest.fixture
def stage(database_url: str, redis_url: str) -> Iterator[Stage]:
    with Stage(
        Scenario(Path("041"), dict(_BODY), {"f1": ["f1"], "g1": ["g1"]}), database_url, redis_url
    ) as stage:
        yield stage


def test_a_cancelled_read_does_not_shift_answers(
    stage: Stage, redis_url: str, inventory_server: ValkeyServer
) -> None:
    submit(stage, 1, "f1", gpus=8, node_labels={"host": "n1"})
    cycle(stage, 2)
    assert stage.statuses() == {"f1": "Running"}
    client = make_client(redis_url)
    free = free_by_node(stage, client)

    cancel_reads(client, free, inventory_server.pid)

    # After 2: all reads are right, no connection with an unread answer came back, and the pool is
    # no larger than its readers.
    with ThreadPoolExecutor(_READERS) as readers:
        n1 = [readers.submit(free, "n1") for _ in range(200)]
        n2 = [readers.submit(free, "n2") for _ in range(200)]
        assert {read.result() for read in n1} == {0}
        assert {read.result() for read in n2} == {8}
    pool = client.connection_pool
    idle = pool._available_connections
    assert pool._in_use_connections == set()
    assert 0 < len(idle) <= _READERS
    assert not any(connection.can_read() for connection in idle), "an answer waits for the wrong reader"

    # After 4: the inventory that was read is the inventory that the cycle works with.
    submit(stage, 3, "g1", gpus=8)
    cycle(stage, 4)
    assert {held.group: held.gpus for held in stage.books.held()} == {"f1": {"n1": 8}, "g1": {"n2": 8}}
    assert (free("n1"), free("n2")) == (0, 0)
    client.close()


def submit(stage: Stage, step: int, name: str, **role: object) -> None:
    fields = {"step": step, "at": step, "do": "submit", "group": name, "queue": "q1", "roles": [role]}
    stage.begin(fields)
    steps.run(stage, fields)


def cycle(stage: Stage, step: int) -> None:
    fields = {"step": step, "at": step, "do": "cycle"}
    stage.begin(fields)
    steps.run(stage, fields)


def free_by_node(stage: Stage, client: redis.Redis) -> Callable[[str], int]:
    ids = {row["name"]: row["id"] for row in stage.books.rows("SELECT id, name FROM nodes")}

    def free(node: str) -> int:
        state = Ledger(client).read()
        assert state is not None
        return sum(node_id == ids[node] for node_id, _ in state.free())

    return free


def cancel_reads(client: redis.Redis, free: Callable[[str], int], server_pid: int) -> None:
    """50 reads, each cancelled after its command was sent: the server stands still meanwhile, so the
    answers are all still to come, on whatever connection they were asked for."""

    def by_pipeline() -> None:
        with client.pipeline() as pipe:
            pipe.hgetall(keys.LEDGER)
            pipe.smembers("muster:nothing")
            pipe.execute()

    for turn in range(50):
        assert client.ping(), "a connection of the pool is ready"
        with standing_still(server_pid), interrupted(), pytest.raises(Cancelled):
            by_pipeline() if turn % 2 else free("n2")


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def interrupted() -> Iterator[None]:
    """Raise Cancelled in this thread in a moment, wherever it stands."""

    def cancel(*_: object) -> None:
        raise Cancelled

    before = signal.signal(signal.SIGUSR1, cancel)
    ident = threading.get_ident()
    timer = threading.Timer(_CANCEL_AFTER_SECONDS, lambda: signal.pthread_kill(ident, signal.SIGUSR1))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGUSR1, before)
