"""Retention as the ticker runs it, beside others who work; killed in the middle it goes on."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta

from redis import Redis
from sqlalchemy import Engine, create_engine, text

from service.clock import SystemClock
from service.inventory.client import make_client
from service.inventory.retention_stats import read_retention_stats
from service.settings import Settings
from service.store.engine import make_engine
from tests.integration.leader.processes import running, stop, wait_until
from tests.integration.leader.site import Site
from tests.integration.retention.history import TABLES, cancel, left, submit
from workers.admission import Leader
from workers.retention import Retention

OLD = datetime.now(UTC) - timedelta(days=40)
_ENDED = """
WITH old AS (
  INSERT INTO groups (public_id, name, queue_id, shape_id, tenant, owner, priority, scheduling, member_count,
    submitted_at, grace_seconds, on_member_loss, max_restarts, backoff_seconds, seat_timeout_seconds,
    is_preemptible, labels)
  SELECT gen_random_uuid(), 'old', g.queue_id, g.shape_id, 't', 'u', 0, 'gang', 1, g.submitted_at, 0, 'fail',
    0, 0, 60, true, '{}' FROM groups g, generate_series(1, :count) RETURNING id, submitted_at
), specs AS (
  INSERT INTO group_specs (group_id, spec) SELECT id, '{}' FROM old
), units AS (
  INSERT INTO units (id, group_id, first_index, last_index, status, attempt, version, is_held, restarts_used,
    refused_dispatches, failed_nodes, ended_at)
  SELECT id << 20, id, 0, 0, 'Cancelled', 1, 2, false, 0, 0, '{}', submitted_at FROM old
)
INSERT INTO events (is_feed, at, kind, group_id, unit_id)
SELECT true, submitted_at, kind, id, id << 20 FROM old, unnest('{Submitted,Cancelled}'::text[]) AS kind
"""


def fill(engine: Engine, count: int) -> int:
    """So many old groups that have ended, and one that still waits; its id."""
    waiting = submit(engine, OLD).groups[0].id
    with engine.begin() as conn:
        conn.execute(text(_ENDED), {"count": count})
    return waiting


def test_killed_in_the_middle_it_leaves_no_half_group_and_goes_on(
    database_url: str, redis_url: str, redis_client: Redis
) -> None:
    engine = create_engine(database_url)
    try:
        waiting = fill(engine, 6_000)
        settings = {"database_url": database_url, "redis_url": redis_url, "retention_period_seconds": 0.2}
        kills = 0
        while len(left(engine)["groups"]) > 1 and kills < 3:
            had = len(left(engine)["groups"])
            with running("ticker", **settings) as ticker:
                wait_until(lambda had=had: len(left(engine)["groups"]) < had)  # type: ignore[misc]
                ticker.send_signal(signal.SIGKILL)
                ticker.wait(10)
            kills += 1
            found = left(engine)
            assert found["groups"] == found["units"] == found["group_specs"] == found["events"]
        assert kills >= 2
        with running("ticker", **settings) as ticker:
            wait_until(lambda: left(engine)["groups"] == {waiting})
            wait_until(lambda: read_retention_stats(redis_client).runs > 1)
            assert stop(ticker) == 0
        found = left(engine)
        assert {table for table in TABLES if found[table]} == {"groups", "group_specs", "units", "events"}
        assert all(groups <= {waiting} for groups in found.values())
    finally:
        engine.dispose()


def test_a_run_is_bounded_in_time_and_the_next_one_goes_on(
    database_url: str, redis_client: Redis, engine: Engine
) -> None:
    waiting = fill(engine, 6_000)
    settings = Settings(database_url=database_url, retention_run_seconds=0.02)
    retention = Retention(engine, redis_client, settings=settings, clock=SystemClock())
    runs = [retention.run_once()]
    assert 0 < runs[0].groups < 6_000
    assert runs[0].is_behind
    while runs[-1].is_behind:
        runs.append(retention.run_once())
    assert len(runs) > 2
    assert left(engine)["groups"] == {waiting}
    told = read_retention_stats(redis_client)
    assert (told.runs, told.groups, told.is_behind) == (len(runs), 6_000, False)


def test_the_leaders_feed_and_world_are_not_disturbed(
    database_url: str, redis_url: str, redis_client: Redis
) -> None:
    """A leader that keeps its snapshot over the dropping admits what comes and knows nothing of what is
    gone."""
    engine, client = make_engine(database_url), make_client(redis_url)
    site = Site(engine, nodes=1)
    clock = SystemClock()
    leader = Leader(database_url, client, clock=clock, settings=Settings(), name="w")
    try:
        old = submit(engine, OLD, count=3)
        assert leader.run_cycle().admitted == 3
        waiting = submit(engine, OLD, count=8)
        leader.run_cycle()
        cancel(engine, waiting.public_ids[-2:], OLD)
        leader.run_cycle()
        term = leader.term
        done = Retention(engine, client, settings=Settings(), clock=clock).run_once()
        assert done.groups == 2
        for group in old.groups:
            site.end(group.unit_id)
        fresh = submit(engine, clock.now(), count=1)
        assert leader.run_cycle().admitted == 2
        assert leader.term is term
        assert site.statuses()[fresh.groups[0].unit_id] == "Admitted"
    finally:
        leader.close()
        client.close()
        engine.dispose()


def test_zero_days_keep_everything(database_url: str, redis_client: Redis, engine: Engine) -> None:
    fill(engine, 3)
    settings = Settings(database_url=database_url, retention_days=0)
    retention = Retention(engine, redis_client, settings=settings, clock=SystemClock())
    retention.start()
    retention.stop()
    assert len(left(engine)["groups"]) == 4
    assert read_retention_stats(redis_client).runs == 0
