"""A cycle waits for each store a few times, however much it reads, admits or releases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from service.clock import VirtualClock
from service.inventory.client import make_client
from service.settings import Settings
from tests.integration.leader.site import Site, gang, independent
from tests.lines import PostgresLine, RedisLine
from workers.admission import Leader


class Meter:
    """A leader, and how often it has waited for each store: (PostgreSQL, Redis)."""

    def __init__(self, postgres: PostgresLine, redis_line: RedisLine, leader: Leader) -> None:
        self._lines = (postgres, redis_line)
        self._leader = leader

    def cycle(self) -> tuple[int, tuple[int, int]]:
        """How many units one cycle has admitted, and what it took."""
        before = self._read()
        admitted = self._leader.run_cycle().admitted
        after = self._read()
        return admitted, (after[0] - before[0], after[1] - before[1])

    def _read(self) -> tuple[int, int]:
        return self._lines[0].round_trips, self._lines[1].round_trips


@pytest.fixture
def meter(
    site: Site, database_url: str, client: redis.Redis, server_folder: Path, clock: VirtualClock
) -> Iterator[Meter]:
    socket_path = Path(client.connection_pool.connection_kwargs["path"])
    # The lease is kept by a thread, as in a worker, and not renewed as long as this takes.
    settings = Settings(lease_seconds=600)
    with (
        PostgresLine(database_url, server_folder) as postgres,
        RedisLine(socket_path, server_folder) as redis_line,
    ):
        own = make_client(redis_line.url)
        leader = Leader(postgres.url, own, clock=clock, settings=settings, name="w1", keeps_lease=True)
        leader.run_cycle()
        yield Meter(postgres, redis_line, leader)
        leader.close()
        own.close()


def test_a_cycle_in_which_nothing_is_new_asks_each_store_once(meter: Meter) -> None:
    for _ in range(3):
        assert meter.cycle() == (0, (1, 1))


@pytest.mark.parametrize("count", [1, 60])
def test_what_waits_costs_one_publication_more(site: Site, meter: Meter, count: int) -> None:
    site.submit(16, spec=gang(1, 1))
    assert meter.cycle()[0] == 16
    meter.cycle()
    site.submit(count, spec=gang(1, 1))
    assert meter.cycle() == (0, (1, 2))


#: In the most: a look, release, reserve, the ring, and a publication if readers see anything new.
ADMITTING = ((3, 4), (3, 5))


@pytest.mark.parametrize("count", [1, 16])
def test_admissions_take_as_many_round_trips_as_one(site: Site, meter: Meter, count: int) -> None:
    """PostgreSQL: what changed, the one statement, its COMMIT."""
    for is_known in (False, False, True):
        site.submit(count, spec=gang(1, 1))
        admitted, taken = meter.cycle()
        assert admitted == count
        for unit in site.statuses():
            site.end(unit)
        assert not is_known or taken in ADMITTING, "its shape and the scripts were known"


@pytest.mark.parametrize("count", [1, 15])
def test_the_locks_of_ranges_cost_nothing_more(site: Site, meter: Meter, count: int) -> None:
    for is_known in (False, False, True):
        site.submit(spec=independent(count, 1))
        admitted, taken = meter.cycle()
        assert admitted == count
        for unit in site.statuses():
            site.end(unit)
        assert not is_known or taken in ADMITTING
