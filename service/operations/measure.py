"""What /metrics shows, of the moment of a scrape. A store that is away leaves out what it knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from redis import Redis, RedisError
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.domain.reasons import Code
from service.inventory.cycle_stats import CycleStats, read_cycle_stats
from service.inventory.pass_stats import read_pass_stats
from service.inventory.retention_stats import RetentionStats, read_retention_stats
from service.inventory.timings import Timings
from service.inventory.verdicts import PublishedQueue, read_queue
from service.jobs import waiting_jobs
from service.operations.audit import audit
from service.store.lease_rows import LeaseRow, list_leases
from service.store.measure_rows import (
    GpuCount,
    QueueWait,
    read_admit_seconds,
    read_ends,
    read_gpus,
    read_live,
    read_release_seconds,
    read_start_seconds,
    read_unended,
)
from service.store.turnover_rows import read_turnover_seconds

#: Latencies are those of so long before the scrape.
WINDOW = timedelta(minutes=5)


@dataclass(slots=True, kw_only=True)
class Measurements:
    """None: the store that knows it is away. Seconds are sorted."""

    is_store_up: bool = False
    is_inventory_up: bool = False
    gpus: tuple[GpuCount, ...] = ()
    waits: tuple[QueueWait, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    live_units: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    leases: tuple[LeaseRow, ...] = ()
    admit_seconds: list[float] | None = None
    start_seconds: list[float] | None = None
    release_seconds: list[float] | None = None
    turnover_seconds: list[float] | None = None
    cycles: CycleStats | None = None
    passes: Mapping[str, Timings] = field(default_factory=dict)
    retention: RetentionStats | None = None
    jobs: int | None = None
    pending: Mapping[str, int] | None = None
    drift: int | None = None


def measure(engine: Engine, redis: Redis, *, now: datetime) -> Measurements:
    """Never raises because a store is away."""
    found = Measurements()
    queue_ids: list[int] = []
    with suppress(DBAPIError, PoolTimeout), engine.connect() as conn:
        queue_ids = _measure_store(conn, found, now=now)
    with suppress(RedisError):
        found.cycles = read_cycle_stats(redis)
        found.retention = read_retention_stats(redis)
        found.jobs = waiting_jobs(redis)
        found.passes = read_pass_stats(redis, [lease.pool for lease in found.leases if lease.pool])
        found.is_inventory_up = True
    if found.is_store_up and found.is_inventory_up:
        with suppress(DBAPIError, PoolTimeout, RedisError):
            found.pending = _pending_by_reason(redis, queue_ids)
            found.drift = len(audit(engine, redis, now=now).drift)
    return found


def _measure_store(conn: Connection, found: Measurements, *, now: datetime) -> list[int]:
    since = now - WINDOW
    found.gpus = read_gpus(conn)
    unended = read_unended(conn)
    found.waits, found.groups = unended.waits, unended.groups
    found.live_units = read_live(conn)
    found.ends = read_ends(conn, since=since)
    found.leases = list_leases(conn)
    found.admit_seconds = sorted(read_admit_seconds(conn, since=since))
    found.start_seconds = sorted(read_start_seconds(conn, since=since))
    found.release_seconds = sorted(read_release_seconds(conn, since=since))
    found.turnover_seconds = sorted(read_turnover_seconds(conn, since=since))
    found.is_store_up = True
    return list(conn.execute(text("SELECT id FROM queues WHERE deleted_at IS NULL")).scalars())


def _pending_by_reason(redis: Redis, queue_ids: list[int]) -> dict[str, int]:
    """Waiting rows by the first of their reasons, all codes, zeros too."""
    counts: Counter[str] = Counter({code.value: 0 for code in Code})
    for queue_id in queue_ids:
        queue = read_queue(redis, queue_id)
        if queue is not None:
            counts.update(_first_reasons(queue))
    return dict(counts)


def _first_reasons(queue: PublishedQueue) -> Counter[str]:
    counts: Counter[str] = Counter()
    for verdict, rows in Counter(queue.verdict_numbers()).items():
        blockers = queue.verdicts[verdict]
        counts[(blockers[0].code if blockers else Code.PENDING_EVALUATION).value] += rows
    return counts
