from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis
from sqlalchemy import Engine, text

from service.api.app import create_app
from service.clock import SystemClock
from service.inventory.client import make_client
from service.inventory.cycle_stats import CycleStats, add_cycle_stats
from service.inventory.pass_stats import add_pass_stats
from service.inventory.retention_stats import RetentionStats, add_retention_stats
from service.inventory.timings import Timings
from service.jobs import enqueue_cycles, waiting_jobs
from service.settings import Settings
from service.store.engine import make_engine
from tests.integration.api.rows import add_nodes, add_pool
from workers.admission import Leader

Client = TestClient[Litestar]
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

POOL = "local"


def scrape(client: Client) -> Samples:
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


@pytest.fixture
def leader(settings: Settings, engine: Engine, redis: Redis) -> Iterator[Leader]:
    with engine.begin() as conn:
        add_nodes(conn, add_pool(conn), {"n1": (8, "H100-80GB")})
    leader = Leader(settings.database_url, redis, clock=SystemClock(), settings=settings, name="w1")
    yield leader
    leader.close()


def test_what_a_scrape_shows(
    leader: Leader, anonymous: Client, user: Client, engine: Engine, redis: Redis
) -> None:
    for name in ("a", "b"):
        body = {"name": name, "members": 6, "gpus": 1, "command": ["true"]}
        assert user.post("/v1/groups", json=body).status_code == 201
    leader.run_cycle()
    with engine.begin() as conn:
        conn.execute(text("UPDATE devices SET lost_at = now() WHERE device = 7"))
        conn.execute(text("UPDATE config SET version = version + 1"))
    leader.run_cycle()
    stats = CycleStats()
    stats.count(0.003, admitted=1, waiting=1)
    decisions = {"claim:Guard": 2, "redated": 3, "evicted": 4, "shrunk": 5, "wasted:PlaceLost": 1}
    stats.count(99.0, admitted=0, waiting=1, decisions=decisions)
    add_cycle_stats(redis, stats)
    stats = CycleStats()
    stats.count(0.003, admitted=0, waiting=1, decisions={"claim:Guard": 1})
    add_cycle_stats(redis, stats)
    passes = Timings()
    passes.add(0.02)
    add_pass_stats(redis, POOL, times=passes)
    ran_at = datetime(2026, 1, 1, tzinfo=UTC)
    add_retention_stats(redis, RetentionStats(runs=1, groups=7, seconds=0.5, at=ran_at, is_behind=True))
    enqueue_cycles(redis)

    found = scrape(anonymous)
    gpus = {dict(labels)["state"]: value for (name, labels), value in found.items() if name == "muster_gpus"}
    assert gpus == {"held": 6, "free": 1, "lost": 1}
    assert found["muster_up", (("store", "postgresql"),)] == found["muster_up", (("store", "redis"),)] == 1
    assert found["muster_waiting_groups", (("queue", "default"),)] == 1
    assert 0 < found["muster_oldest_wait_seconds", (("queue", "default"),)] < 60
    pending = {
        dict(labels)["reason"]: value for (name, labels), value in found.items() if name == "muster_pending"
    }
    assert sum(pending.values()) == 1
    assert pending["InsufficientGpus"] == 1, {reason: count for reason, count in pending.items() if count}
    assert found["muster_live_units", (("status", "Admitted"),)] == 1
    assert found["muster_admit_seconds_count", ()] == 1
    assert 0 < found["muster_admit_seconds", (("quantile", "0.5"),)] < 60
    assert found["muster_cycle_seconds_bucket", (("le", "0.005"),)] == 2
    assert found["muster_cycle_seconds_count", ()] == 3
    claims = {cause: found["muster_claims_total", (("cause", cause),)] for cause in ("Head", "Guard")}
    assert claims == {"Head": 0, "Guard": 3}
    assert found["muster_claims_redated_total", ()] == 3
    assert found["muster_preemptions_total", (("extent", "whole"),)] == 4
    assert found["muster_preemptions_total", (("extent", "members"),)] == 5
    assert found["muster_preemptions_wasted_total", (("cause", "PlaceLost"),)] == 1
    assert found["muster_cycle_admissions_total", ()] == 1
    assert found["muster_audit_drift", ()] == 0
    assert found["muster_groups", (("status", "Admitted"),)] == 1
    assert found["muster_groups", (("status", "Pending"),)] == 1
    assert found["muster_ended_units", (("status", "Failed"),)] == 0
    assert found["muster_cycle_jobs", ()] == waiting_jobs(redis) > 0
    assert found["muster_pass_seconds_bucket", (("le", "0.01"), ("pool", POOL))] == 0
    assert found["muster_pass_seconds_bucket", (("le", "0.025"), ("pool", POOL))] == 1
    assert found["muster_pass_seconds_sum", (("pool", POOL),)] == pytest.approx(0.02)
    assert found["muster_retention_groups_total", ()] == 7
    assert found["muster_retention_behind", ()] == 1
    assert found["muster_retention_last_run_timestamp_seconds", ()] == ran_at.timestamp()
    assert found["muster_turnover_seconds_count", ()] == 0
    assert found["muster_streams", ()] == 0
    assert found["muster_database_connections", ()] == 0


def test_leases_show_their_holder_and_when_they_end(leader: Leader, anonymous: Client) -> None:
    leader.run_cycle()
    found = scrape(anonymous)
    worker, nobody = (("pool", ""), ("process", "worker")), (("pool", POOL), ("process", "dispatcher"))
    assert found["muster_lease_epoch", worker] == 1
    assert 0 < found["muster_lease_seconds_left", worker] <= 10
    assert found["muster_lease_holder", (("holder", "w1"), *worker)] == 1
    assert found["muster_lease_epoch", nobody] == 0
    assert found["muster_lease_seconds_left", nobody] < 0


def test_drift_shows(leader: Leader, anonymous: Client, user: Client) -> None:
    body = {"name": "a", "members": 6, "gpus": 1, "command": ["true"]}
    assert user.post("/v1/groups", json=body).status_code == 201
    assert leader.read_and_plan()
    assert leader.reserve()
    assert scrape(anonymous)["muster_audit_drift", ()] == 6


def test_without_redis_it_shows_what_postgresql_knows(
    settings: Settings, leader: Leader, engine: Engine
) -> None:
    away = make_client("unix:///nowhere/redis.sock")
    with TestClient(create_app(settings, engine=engine, redis=away)) as client:
        found = scrape(client)
    assert found["muster_up", (("store", "redis"),)] == 0
    assert found["muster_gpus", (("model", "H100-80GB"), ("state", "free"))] == 8
    assert ("muster_audit_drift", ()) not in found


def test_without_any_store_it_answers(settings: Settings, redis: Redis) -> None:
    nobody = make_engine("postgresql+psycopg://muster@/none?host=/nowhere", pool_size=1)
    with TestClient(create_app(settings, engine=nobody, redis=redis)) as client:
        found = scrape(client)
    assert found["muster_up", (("store", "postgresql"),)] == 0
    assert found["muster_up", (("store", "redis"),)] == 1
