"""The dispatcher as a process: rung, told by its launcher, killed, and with stores that go away."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from sqlalchemy import Engine

from service import jobs
from service.clock import SystemClock
from service.inventory.keys import CYCLES_DIRTY
from tests.integration.dispatch.site import SECRET_KEY, Site

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def site(engine: Engine, tmp_path: Path) -> Iterator[Site]:
    site = Site(engine, tmp_path, start=SystemClock().now())
    yield site
    site.close()


@pytest.fixture
def start(database_url: str, redis_url: str, tmp_path: Path) -> Iterator[Start]:
    """Starts `muster dispatcher` on a simulated node of eight GPUs; by default it never polls."""
    made: list[subprocess.Popen[bytes]] = []

    def begin(**variables: str) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "MUSTER_DATABASE_URL": database_url,
            "MUSTER_REDIS_URL": redis_url,
            "MUSTER_DATA": str(tmp_path),
            "MUSTER_SECRET_KEY": SECRET_KEY,
            "MUSTER_POOL": "p1",
            "MUSTER_LAUNCHER": "simulated",
            "MUSTER_NODES": "1x8xmx",
            "MUSTER_DISPATCHER_POLL_SECONDS": "600",
            **variables,
        }
        process = subprocess.Popen([Path(sys.executable).with_name("muster"), "dispatcher"], env=env)
        made.append(process)
        return process

    yield begin
    for process in made:
        if process.poll() is None:
            process.kill()
        process.wait()


def wait_until(is_so: Callable[[], object], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def has_nodes(site: Site) -> bool:
    return bool(site.node_ids())


def ring(site: Site, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        jobs.ring_all_dispatchers(client, [site.rows("SELECT id FROM pools")[0].id])


def test_the_bell_starts_a_group_and_its_end_is_pushed(site: Site, start: Start, redis_url: str) -> None:
    start()
    wait_until(lambda: has_nodes(site))
    time.sleep(0.5)
    unit = site.admit("g1", [("node-1", (0,)), ("node-1", (1,))], command=("simulate", "--seconds", "0.5"))
    with redis.Redis.from_url(redis_url) as client:
        before = int(client.get(CYCLES_DIRTY) or 0)
        rung = time.monotonic()

        ring(site, redis_url)

        wait_until(lambda: site.status(unit) in ("Running", "Succeeded"), seconds=3)
        wait_until(lambda: site.status(unit) == "Succeeded", seconds=3)
        assert time.monotonic() - rung < 3
        wait_until(lambda: int(client.get(CYCLES_DIRTY) or 0) > before, seconds=2)
    assert site.held() == 0


def test_a_deadline_needs_no_bell(site: Site, start: Start, redis_url: str) -> None:
    start()
    wait_until(lambda: has_nodes(site))
    # The limit runs from admission, and the process took its time to start.
    site.clock.move_to(SystemClock().now())
    unit = site.admit("g1", [("node-1", (0,))], time_limit_seconds=2)
    ring(site, redis_url)
    wait_until(lambda: site.status(unit) == "Failed", seconds=10)

    # On a busy machine nobody may have looked while it was Running.
    assert "Running" in site.events(unit)
    assert site.unit(unit).cause == "TimeLimit"


def test_a_killed_dispatcher_loses_nothing(site: Site, start: Start, redis_url: str) -> None:
    """Its members end while nobody looks; the next one records that once, with the true instant."""
    first = start()
    wait_until(lambda: has_nodes(site))
    short = site.admit("g1", [("node-1", (0,))], command=("simulate", "--seconds", "2"))
    long = site.admit("g2", [("node-1", (1,))])
    ring(site, redis_url)
    wait_until(lambda: site.status(short) == site.status(long) == "Running")
    first.kill()
    first.wait()
    time.sleep(2.5)
    assert site.status(short) == "Running"

    start()

    wait_until(lambda: site.status(short) == "Succeeded", seconds=8)
    [closed] = site.rows("SELECT running_at, ended_at FROM closed_attempts")
    assert 1 < (closed.ended_at - closed.running_at).total_seconds() < 2.5
    assert site.events(short).count("MemberEnded") == 1
    assert site.status(long) == "Running"
    assert site.attempt(long).generation == 1


def test_sigterm_ends_it_and_leaves_members_running(site: Site, start: Start, redis_url: str) -> None:
    first = start(MUSTER_DISPATCHER_POLL_SECONDS="1")
    wait_until(lambda: has_nodes(site))
    unit = site.admit("g1", [("node-1", (0,))])
    wait_until(lambda: site.status(unit) == "Running")

    first.terminate()

    assert first.wait(timeout=10) == 0
    assert site.status(unit) == "Running"
    start(MUSTER_DISPATCHER_POLL_SECONDS="1")
    other = site.admit("g2", [("node-1", (1,))])
    wait_until(lambda: site.status(other) == "Running", seconds=8)
    assert site.attempt(unit).generation == 1


def test_without_redis_it_goes_on_by_looking(site: Site, start: Start, tmp_path: Path) -> None:
    process = start(MUSTER_REDIS_URL=f"unix://{tmp_path}/nobody.sock", MUSTER_DISPATCHER_POLL_SECONDS="0.3")
    wait_until(lambda: has_nodes(site))
    unit = site.admit("g1", [("node-1", (0,))], command=("simulate", "--seconds", "0.1"))
    wait_until(lambda: site.status(unit) == "Succeeded")
    assert process.poll() is None


def test_it_waits_for_postgresql_and_comes_back(site: Site, start: Start) -> None:
    process = start(MUSTER_DISPATCHER_POLL_SECONDS="0.3")
    wait_until(lambda: has_nodes(site))
    with site.engine.begin() as conn:
        conn.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'muster dispatcher'"
        )
    unit = site.admit("g1", [("node-1", (0,))], command=("simulate", "--seconds", "0.1"))
    wait_until(lambda: site.status(unit) == "Succeeded")
    assert process.poll() is None


def test_real_processes_run_and_a_failure_is_told_with_its_log(
    site: Site, start: Start, redis_url: str
) -> None:
    start(MUSTER_LAUNCHER="local")
    wait_until(lambda: has_nodes(site))
    good = site.admit(
        "good",
        [("node-1", (0,)), ("node-1", (1,))],
        command=("sh", "-c", 'test "$WORLD_SIZE" = 2 && test "$RANK" = "$CUDA_VISIBLE_DEVICES"'),
    )
    bad = site.admit(
        "bad",
        [("node-1", (2,))],
        command=("sh", "-c", "echo no data at $TOKEN; exit 3"),
        secrets={"TOKEN": "hush-hush"},
        max_restarts=0,
    )
    missing = site.admit("missing", [("node-1", (3,))], command=("/nonexistent/train",))
    ring(site, redis_url)

    wait_until(lambda: all(site.attempt(unit) is None for unit in (good, bad, missing)))

    assert site.status(good) == "Succeeded"
    assert (site.status(bad), site.unit(bad).cause) == ("Failed", "UserError")
    assert "Member 0 exited with code 3 on node-1: no data at ***" in site.unit(bad).message
    assert site.status(missing) == "Failed"
    assert "cannot be executed" in site.unit(missing).message
    assert site.held() == 0


def test_a_real_gang_starts_again_in_place(site: Site, start: Start, redis_url: str, tmp_path: Path) -> None:
    start(MUSTER_LAUNCHER="local")
    wait_until(lambda: has_nodes(site))
    mark = tmp_path / "failed-once"
    script = f'test "$RANK" = 0 || {{ test -e {mark} || {{ touch {mark}; exit 1; }}; }}; sleep 0.3'
    unit = site.admit(
        "g1", [("node-1", (0,)), ("node-1", (1,))], command=("sh", "-c", script), grace_seconds=5
    )
    ring(site, redis_url)

    wait_until(lambda: site.status(unit) == "Succeeded")

    assert site.unit(unit).restarts_used == 1
    [closed] = site.rows("SELECT attempt, generation, dispatches FROM closed_attempts")
    assert tuple(closed) == (1, 2, 2)


def test_a_wrong_launcher_is_told(start: Start) -> None:
    process = start(MUSTER_LAUNCHER="slurm")
    assert process.wait(timeout=20) != 0
