"""A bell is heard at once, and not waited for longer than was asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import redis

from service import jobs
from service.inventory import keys
from service.inventory.client import make_client
from service.settings import Settings
from tests.integration.leader.conftest import MakeLeader
from tests.integration.leader.site import Site, gang
from workers.bell import Bell
from workers.tasks import CycleTask


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    client = make_client(redis_url)
    yield client
    client.close()


@pytest.fixture
def bell(client: redis.Redis) -> Iterator[Bell]:
    bell = Bell(client, keys.CYCLES_BELL)
    yield bell
    bell.close()


def test_who_waits_waits_as_long_as_it_said(bell: Bell) -> None:
    """On an idle server, which ends a short BLPOP of its own only after a tenth of a second."""
    times = []
    for _ in range(5):
        began_at = time.monotonic()
        assert bell.wait(0.01) is None
        times.append(time.monotonic() - began_at)
    assert 0.009 < sorted(times)[2] < 0.06


def test_what_was_rung_is_heard_once(bell: Bell, client: redis.Redis) -> None:
    assert bell.wait(0) is None
    jobs.wake_cycles(client, frees=True)
    assert bell.wait(2) == jobs.FREED
    jobs.wake_cycles(client)
    assert bell.wait(2) == jobs.LOOK
    assert bell.wait(0.01) is None


def test_what_is_forgotten_is_not_heard(bell: Bell, client: redis.Redis) -> None:
    assert bell.wait(0) is None
    jobs.wake_cycles(client)
    while client.llen(keys.CYCLES_BELL):  # The waiting connection has taken it.
        time.sleep(0.001)
    bell.forget()
    assert bell.wait(0.05) is None


def test_a_closed_bell_takes_nobodys_rings(bell: Bell, client: redis.Redis) -> None:
    assert bell.wait(0) is None
    bell.close()
    deadline = time.monotonic() + 5
    while any(each["cmd"] == "blpop" for each in client.client_list()) and time.monotonic() < deadline:
        time.sleep(0.001)
    jobs.wake_cycles(client)
    assert client.llen(keys.CYCLES_BELL) == 1


def test_a_bell_survives_a_cut_connection(bell: Bell, client: redis.Redis) -> None:
    assert bell.wait(0) is None
    [waiting] = [each for each in client.client_list() if each["cmd"] == "blpop"]
    client.client_kill_filter(_id=waiting["id"])
    with pytest.raises(redis.ConnectionError):
        bell.wait(2)
    jobs.wake_cycles(client)
    assert bell.wait(2) == jobs.LOOK


@pytest.mark.parametrize("frees", [True, False])
def test_who_has_freed_places_does_not_wait_for_a_resting_worker(
    site: Site, make_leader: MakeLeader, client: redis.Redis, frees: bool
) -> None:
    """J2, and how a long rest would show."""
    first, *_ = site.submit(17, spec=gang(1, 1))
    leader, rest_seconds = make_leader(), 3.0
    assert leader.run_cycle().admitted == 16
    settings = Settings(cycle_rest_seconds=rest_seconds, cycle_job_seconds=30)
    job = threading.Thread(target=CycleTask(leader, client, settings=settings).run)
    began_at = time.monotonic()
    job.start()
    while not any(each["cmd"] == "blpop" for each in client.client_list()):  # Its cycle admits nothing.
        assert time.monotonic() < began_at + 10
        time.sleep(0.005)
    site.end(first << 20)
    jobs.wake_cycles(client, frees=frees)
    while site.rows("SELECT count(*) FROM attempts")[0][0] < 16:
        assert time.monotonic() < began_at + 10
        time.sleep(0.005)
    took = time.monotonic() - began_at
    job.join()
    assert (took < rest_seconds) is frees
