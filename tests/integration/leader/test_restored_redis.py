"""A Redis that comes back with its past: an older snapshot, or a log that was cut off (R2-R4)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from service.clock import VirtualClock
from service.domain.unit import unit_id
from service.inventory.client import make_client
from service.inventory.ledger import Ledger
from service.inventory.verdicts import read_queue
from service.settings import Settings
from tests.integration.leader.site import Site, gang
from tests.integration.leader.test_interleavings import assert_books_agree, holders
from workers.admission import Leader, StaleWrite
from workers.embedded.valkey import ValkeyServer


class Past:
    """A server of its own, that can be put back. `way`: by what."""

    def __init__(self, folder: Path, way: str) -> None:
        self._folder = folder
        self._way = way
        self._server = self._start()
        self.client = make_client(self._server.url)

    def remember(self) -> None:
        """Come back to this instant later."""
        if self._way == "snapshot":
            self.client.save()
            shutil.copy(self._data / "dump.rdb", self._folder / "kept.rdb")
        else:
            self._kept = self._log.stat().st_size

    def come_back(self) -> None:
        """Kill the server, and start it with what was remembered."""
        self._server.process.kill()
        self._server.process.wait()
        if self._way == "snapshot":
            shutil.copy(self._folder / "kept.rdb", self._data / "dump.rdb")
        else:
            with self._log.open("r+b") as log:
                # In the middle of a command, as a crash of the machine leaves it.
                log.truncate(self._kept + 7)
        self._server = self._start()

    def close(self) -> None:
        self.client.close()
        self._server.stop()

    @property
    def _data(self) -> Path:
        return self._folder / "v"

    @property
    def _log(self) -> Path:
        [log] = (self._data / "appendonlydir").glob("*.incr.aof")
        return log

    def _start(self) -> ValkeyServer:
        options = {"appendonly": "no"} if self._way == "snapshot" else {"appendfsync": "always"}
        return ValkeyServer.start(self._data, socket_dir=self._folder / "s", options=options)


@pytest.fixture(params=["snapshot", "truncated file"])
def past(server_folder: Path, request: pytest.FixtureRequest) -> Iterator[Past]:
    past = Past(server_folder, request.param)
    yield past
    past.close()


def make_leader(past: Past, database_url: str, clock: VirtualClock, name: str) -> Leader:
    return Leader(database_url, past.client, clock=clock, settings=Settings(), name=name)


def position(client: redis.Redis, site: Site, group: int) -> int | None:
    queue = read_queue(client, site.queue_id)
    assert queue is not None
    return queue.position_of(group)


def test_a_ledger_from_the_past_is_replaced_before_anything_is_admitted(
    site: Site, database_url: str, clock: VirtualClock, past: Past
) -> None:
    """It says that places are free which are held, and held which are free; and lists who has started."""
    leader = make_leader(past, database_url, clock, "w1")
    [ended] = site.submit(spec=gang(1, 8))
    leader.run_cycle()
    [starts], [waits] = site.submit(spec=gang(1, 8)), site.submit(spec=gang(2, 8))
    past.remember()
    site.end(unit_id(ended, 0))
    assert leader.run_cycle().admitted == 1
    assert position(past.client, site, waits) == 1
    [late] = site.submit(spec=gang(1, 8))

    past.come_back()

    assert holders(past.client) == {(unit_id(ended, 0), 1)}, "it is the past"
    result = leader.run_cycle()
    assert (result.is_settled, result.admitted) == (True, 1)
    assert holders(past.client) == {(unit_id(starts, 0), 1), (unit_id(late, 0), 1)}
    assert position(past.client, site, waits) == 1
    assert position(past.client, site, starts) is None
    assert leader.stale_refusals == []
    assert_books_agree(site, past.client)
    leader.abandon()


def test_a_frozen_leader_that_knows_the_ledger_of_the_past_is_harmless(
    site: Site, database_url: str, clock: VirtualClock, past: Past
) -> None:
    """The ledger takes its reservations, for it is the one that it remembers; PostgreSQL takes nothing
    (L2), and the leader of today finds that the ledger is not its own (R2)."""
    frozen, today = (make_leader(past, database_url, clock, name) for name in ("w1", "w2"))
    [early] = site.submit(spec=gang(2, 8))
    assert frozen.read_and_plan()
    past.remember()
    clock.advance(11)
    [urgent] = site.submit(spec=gang(2, 8, priority=10))
    assert today.run_cycle().admitted == 1

    past.come_back()
    assert frozen.reserve()
    assert holders(past.client) == {(unit_id(early, 0), 1)}
    assert not frozen.resume().is_leader

    assert frozen.stale_refusals == [StaleWrite(holder="w1", epoch=1, by="store")]
    assert today.run_cycle().is_settled
    assert holders(past.client) == {(unit_id(urgent, 0), 1)}
    assert site.statuses() == {unit_id(early, 0): "Pending", unit_id(urgent, 0): "Admitted"}
    assert_books_agree(site, past.client)
    for leader in (frozen, today):
        leader.abandon()


def test_a_takeover_over_a_past_that_knows_a_lower_epoch(
    site: Site, database_url: str, clock: VirtualClock, past: Past
) -> None:
    """Nobody led while it came back: epochs come from PostgreSQL, the ledger's only raises them."""
    first = make_leader(past, database_url, clock, "w1")
    site.submit(spec=gang(1, 8))
    past.remember()
    assert first.run_cycle().admitted == 1
    first.abandon()
    clock.advance(11)
    past.come_back()
    second = make_leader(past, database_url, clock, "w2")
    site.submit(spec=gang(1, 8))
    assert second.run_cycle().admitted == 1
    stamp = Ledger(past.client).stamp()
    assert stamp is not None
    assert stamp.epoch == 2
    assert_books_agree(site, past.client)
    second.abandon()
