"""Wake-ups, the cycle's job and the ticker (J1, J2)."""

from __future__ import annotations

import json
import threading
import time
import zlib
from datetime import timedelta

import pytest
import redis
from rq import Queue
from rq.job import Job

from service import jobs
from service.clock import VirtualClock
from service.domain.unit import unit_id
from service.inventory import keys
from service.inventory.cycle_stats import CycleStats, add_cycle_stats, read_cycle_stats
from service.settings import Settings
from tests.integration.leader.conftest import MakeLeader
from tests.integration.leader.processes import running, stop, wait_until
from tests.integration.leader.site import Site, gang
from workers.admission import CycleResult, Leader
from workers.tasks import CycleTask, UnknownTask, allowed_jobs


def queued(client: redis.Redis) -> int:
    return jobs.waiting_jobs(client)


def test_only_the_first_wake_up_enqueues_a_job(client: redis.Redis) -> None:
    assert jobs.wake_cycles(client)
    assert not any(jobs.wake_cycles(client) for _ in range(100))
    assert queued(client) == 1
    assert client.get(keys.CYCLES_DIRTY) == b"101"
    assert client.llen(keys.CYCLES_BELL) < 10


def test_jobs_are_json_without_timeout_and_do_not_stay(client: redis.Redis) -> None:
    jobs.enqueue_cycles(client)
    [job] = Queue(jobs.CYCLES, connection=client, serializer="json").get_jobs()
    assert json.loads(zlib.decompress(bytes_of(client.hget(job.key, "data")))) == [
        jobs.RUN_CYCLES,
        None,
        [],
        {},
    ]
    assert (job.timeout, job.result_ttl) == (-1, 0)
    assert job.failure_ttl == 60


def test_a_job_that_is_not_on_the_list_is_never_imported(client: redis.Redis) -> None:
    queue = Queue(jobs.CYCLES, connection=client, serializer="json")
    allowed = allowed_jobs({jobs.RUN_CYCLES: lambda: None})
    for job in (queue.enqueue("os.system", "true"), queue.enqueue(jobs.RUN_CYCLES, 1)):
        with pytest.raises(UnknownTask):
            _ = allowed.fetch(job.id, connection=client, serializer="json").func


def test_a_bell_does_not_grow_while_nobody_listens(client: redis.Redis) -> None:
    for _ in range(50):
        jobs.ring_all_dispatchers(client, [1, 2])
        jobs.ring_all_dispatchers(client, [1])
    assert 0 < client.llen(keys.dispatcher_bell(1)) < 10
    assert 0 < client.llen(keys.dispatcher_bell(2)) < 10


def test_the_job_takes_all_that_came_and_leaves_the_way_free(
    site: Site, make_leader: MakeLeader, client: redis.Redis
) -> None:
    task = CycleTask(make_leader(), client, settings=Settings())
    site.submit(3)
    jobs.wake_cycles(client)
    task.run()
    assert set(site.statuses().values()) == {"Admitted"}
    assert not task.is_over
    assert client.get(keys.CYCLES_WAKE) is None
    assert jobs.wake_cycles(client)


def test_a_change_during_the_job_is_taken_by_the_same_job(
    site: Site, make_leader: MakeLeader, client: redis.Redis
) -> None:
    """The bell ends its waiting at once."""
    leader = make_leader()
    task = CycleTask(leader, client, settings=Settings(cycle_job_seconds=30))
    task.run()
    waiting = threading.Event()

    def submit_late() -> None:
        waiting.wait(0.03)
        site.submit()
        jobs.wake_cycles(make_client_of(client))

    thread = threading.Thread(target=submit_late)
    thread.start()
    began_at = time.monotonic()
    task.run()
    thread.join()
    assert set(site.statuses().values()) == {"Admitted"}
    assert time.monotonic() - began_at < 2


def make_client_of(client: redis.Redis) -> redis.Redis:
    return redis.Redis(connection_pool=client.connection_pool)


class NeverDone(Leader):
    """In each of its cycles something changes."""

    def run_cycle(self) -> CycleResult:
        jobs.wake_cycles(self._client)
        return super().run_cycle()


def test_a_job_ends_though_changes_keep_coming_and_enqueues_the_next(
    site: Site, database_url: str, client: redis.Redis, clock: VirtualClock
) -> None:
    settings = Settings(cycle_job_seconds=0.3)
    leader = NeverDone(database_url, client, clock=clock, settings=settings, name="w1")
    client.set(keys.CYCLES_WAKE, 1)  # The job that runs here was enqueued by a wake-up.
    began_at = time.monotonic()
    CycleTask(leader, client, settings=settings).run()
    assert 0.3 <= time.monotonic() - began_at < 2
    assert queued(client) == 1
    assert client.get(keys.CYCLES_WAKE) is not None
    leader.abandon()


def test_a_job_of_one_who_does_not_lead_is_over(
    site: Site, make_leader: MakeLeader, client: redis.Redis
) -> None:
    assert make_leader("w1").hold_lease()
    task = CycleTask(make_leader("w2"), client, settings=Settings())
    task.run()
    assert task.is_over


def test_the_end_of_a_backoff_wakes_a_cycle(
    site: Site, database_url: str, redis_url: str, client: redis.Redis
) -> None:
    """Also where no ticker runs."""
    site.submit(3, spec=gang(1, 0))
    site.execute("UPDATE units SET backoff_until = now() + interval '1.5 seconds'")
    with running("worker", database_url=database_url, redis_url=redis_url) as worker:
        wait_until(lambda: site.rows("SELECT holder FROM leadership")[0][0] != "")
        assert set(site.statuses().values()) == {"Pending"}
        wait_until(lambda: set(site.statuses().values()) == {"Admitted"})
        assert stop(worker) == 0


@pytest.mark.parametrize("ends", ["is_over", "nothing waits"])
def test_an_alarm_that_is_of_no_use_any_more_does_not_ring(
    site: Site, make_leader: MakeLeader, client: redis.Redis, clock: VirtualClock, ends: str
) -> None:
    [group] = site.submit()
    site.execute("UPDATE units SET backoff_until = :until", until=clock.now() + timedelta(seconds=0.5))
    leader = make_leader("w1")
    task = CycleTask(leader, client, settings=Settings())
    task.run()
    if ends == "is_over":
        clock.advance(60)
        assert make_leader("w2").hold_lease()
    else:
        site.cancel_waiting(unit_id(group, 0))
    task.run()
    client.delete(keys.CYCLES_DIRTY)
    time.sleep(0.7)
    assert client.get(keys.CYCLES_DIRTY) is None


def test_cycles_are_counted(client: redis.Redis) -> None:
    for seconds, admitted, waiting in ((0.0004, 1, 9), (0.03, 2, 5), (100.0, 0, 7)):
        stats = CycleStats()
        stats.count(seconds, admitted=admitted, waiting=waiting)
        add_cycle_stats(client, stats)
    stats = read_cycle_stats(client)
    assert (stats.cycles, stats.admitted, stats.waiting) == (3, 3, 7)
    assert (stats.times.buckets[0], stats.times.buckets[5], stats.times.buckets[-1]) == (1, 1, 1)
    assert stats.times.seconds == pytest.approx(100.0304)


def test_the_ticker_enqueues_json_and_never_piles_up(redis_url: str, client: redis.Redis) -> None:
    client.set(keys.CYCLES_WAKE, 1)  # A worker that was killed in mid-job has left it.
    with running("ticker", redis_url=redis_url, tick_seconds=0.1) as ticker:
        wait_until(lambda: queued(client) == 1)
        time.sleep(0.5)
        assert queued(client) == 1
        queue = Queue(jobs.CYCLES, connection=client, serializer="json")
        [job] = queue.get_jobs()
        assert isinstance(job, Job)
        assert job.func_name == jobs.RUN_CYCLES
        client.delete(queue.key)
        wait_until(lambda: queued(client) == 1)
        assert stop(ticker) == 0


def test_the_ticker_stops_at_once_though_its_next_tick_is_far(redis_url: str, client: redis.Redis) -> None:
    with running("ticker", redis_url=redis_url, tick_seconds=60) as ticker:
        wait_until(lambda: queued(client) == 1)
        began_at = time.monotonic()
        assert stop(ticker) == 0
        assert time.monotonic() - began_at < 3


def test_what_waits_is_taken_in_few_jobs(
    site: Site, database_url: str, redis_url: str, client: redis.Redis
) -> None:
    """J1: a thousand wake-ups are a handful of jobs, and none is lost."""
    jobs_before = int(client.info("commandstats").get("cmdstat_rpush", {}).get("calls", 0))
    with running("worker", database_url=database_url, redis_url=redis_url) as worker:
        for _ in range(10):
            site.submit(20, spec=gang(1, 0))
            for _ in range(100):
                jobs.wake_cycles(client)
        wait_until(lambda: set(site.statuses().values()) == {"Admitted"})
        enqueued = int(client.info("commandstats")["cmdstat_rpush"]["calls"]) - jobs_before
        assert 0 < enqueued < 150
        assert stop(worker) == 0


def bytes_of(value: bytes | str | None) -> bytes:
    assert isinstance(value, bytes)
    return value
