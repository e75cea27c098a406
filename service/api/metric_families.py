"""What was measured, as families of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from service.domain.claim import ClaimCause
from service.domain.preemption import WasteCause
from service.inventory.cycle_stats import (
    EVICTED,
    REDATED,
    SHRUNK,
    CycleStats,
    claim_made,
    claim_wasted,
)
from service.inventory.retention_stats import RetentionStats
from service.inventory.timings import EDGES, Timings
from service.operations.measure import Measurements
from service.store.lease_rows import LeaseRow
from service.store.measure_rows import GpuCount, QueueWait

#: More queues than this are counted together as OTHERS.
_MOST_QUEUES = 200
OTHERS = "(others)"
_QUANTILES = (0.5, 0.9, 0.99)


def families_of(found: Measurements, now: datetime) -> Iterator[Metric]:
    """All that is known; a store that is away leaves out what it knows."""
    yield gauges(
        "muster_up",
        "Whether the store answers.",
        "store",
        {"postgresql": found.is_store_up, "redis": found.is_inventory_up},
    )
    if found.is_store_up:
        yield from _of_the_store(found, now)
    if found.cycles is not None:
        yield from _cycles(found.cycles)
        yield _histogram("muster_pass_seconds", "Time of a dispatcher's pass.", "pool", found.passes)
    if found.jobs is not None:
        yield gauge(
            "muster_cycle_jobs", "Jobs that wait for the worker; more than a few: none works.", found.jobs
        )
    if found.retention is not None:
        yield from _retention(found.retention)
    if found.pending is not None:
        yield gauges("muster_pending", "What waits, by its first reason.", "reason", found.pending)
    if found.drift is not None:
        yield gauge("muster_audit_drift", "Places where books, ledger and processes differ.", found.drift)


def _of_the_store(found: Measurements, now: datetime) -> Iterator[Metric]:
    yield _gpus(found.gpus)
    yield from _waits(found.waits, now)
    yield gauges("muster_groups", "Groups that have not ended.", "status", found.groups)
    yield gauges("muster_live_units", "Units that hold places.", "status", found.live_units)
    yield gauges("muster_ended_units", "Units that ended in the last five minutes.", "status", found.ends)
    yield from _leases(found.leases, now)
    for name, text, values in (
        ("muster_admit_seconds", "From submission to Admitted", found.admit_seconds),
        ("muster_start_seconds", "From submission to Running", found.start_seconds),
        (
            "muster_release_seconds",
            "From the decision to end a group, or the end of its last member, to its places being free",
            found.release_seconds,
        ),
        (
            "muster_turnover_seconds",
            "From the end of one attempt to the start of the next on the same GPU, where it waited already",
            found.turnover_seconds,
        ),
    ):
        yield from _quantiles(name, text, values or ())


def _gpus(gpus: Iterable[GpuCount]) -> Metric:
    family = GaugeMetricFamily("muster_gpus", "GPUs by model and state.", labels=["model", "state"])
    for count in gpus:
        family.add_metric([count.model, "held"], count.held)
        family.add_metric([count.model, "free"], count.free)
        family.add_metric([count.model, "lost"], count.lost)
    return family


def _waits(waits: Sequence[QueueWait], now: datetime) -> Iterator[Metric]:
    """The longest waits first, so those beyond the bound are the shorter ones."""
    shown, others = waits[:_MOST_QUEUES], waits[_MOST_QUEUES:]
    oldest = {wait.queue: (now - wait.oldest_at).total_seconds() for wait in shown}
    groups = {wait.queue: wait.groups for wait in shown}
    if others:
        oldest[OTHERS] = (now - others[0].oldest_at).total_seconds()
        groups[OTHERS] = sum(wait.groups for wait in others)
    yield gauges("muster_oldest_wait_seconds", "Age of the oldest group that waits.", "queue", oldest)
    yield gauges("muster_waiting_groups", "Groups of which something waits.", "queue", groups)


def _leases(leases: Iterable[LeaseRow], now: datetime) -> Iterator[Metric]:
    labels = ["process", "pool"]
    epochs = GaugeMetricFamily("muster_lease_epoch", "Grows when a lease changes hands.", labels=labels)
    left = GaugeMetricFamily(
        "muster_lease_seconds_left", "Until a lease ends; below zero: nobody holds it.", labels=labels
    )
    holders = GaugeMetricFamily("muster_lease_holder", "Who held a lease last.", labels=[*labels, "holder"])
    for lease in leases:
        epochs.add_metric([lease.process, lease.pool], lease.epoch)
        holders.add_metric([lease.process, lease.pool, lease.holder], 1)
        seconds = (lease.expires_at - now).total_seconds() if lease.expires_at else -1.0
        left.add_metric([lease.process, lease.pool], seconds)
    yield from (epochs, left, holders)


def _quantiles(name: str, text: str, values: Sequence[float]) -> Iterator[Metric]:
    """Sorted `values` of the last minutes. Without any there is no quantile."""
    family = GaugeMetricFamily(name, f"{text}, of the last five minutes.", labels=["quantile"])
    for share in _QUANTILES if values else ():
        family.add_metric([str(share)], values[min(len(values) - 1, int(share * len(values)))])
    yield family
    yield gauge(f"{name}_count", f"{text}: how many in the last five minutes.", len(values))


def _cycles(stats: CycleStats) -> Iterator[Metric]:
    yield _histogram("muster_cycle_seconds", "Time of an admission cycle.", None, {"": stats.times})
    yield _counter("muster_cycle_admissions", "Units that cycles admitted.", stats.admitted)
    yield gauge("muster_cycle_size", "Waiting rows that the last cycle left.", stats.waiting)
    decided = stats.decisions
    yield _counters(
        "muster_claims",
        "Claims that were made.",
        "cause",
        {cause: decided[claim_made(cause)] for cause in ClaimCause},
    )
    yield _counter("muster_claims_redated", "Dates of claims that passed.", decided[REDATED])
    yield _counters(
        "muster_preemptions",
        "Units that gave way.",
        "extent",
        {"whole": decided[EVICTED], "members": decided[SHRUNK]},
    )
    yield _counters(
        "muster_preemptions_wasted",
        "Claimants for whom others gave way in vain.",
        "cause",
        {cause: decided[claim_wasted(cause)] for cause in WasteCause},
    )


def _retention(stats: RetentionStats) -> Iterator[Metric]:
    yield _counter("muster_retention_groups", "Ended groups that were dropped.", stats.groups)
    yield _counter("muster_retention_runs", "Looks for groups to be dropped.", stats.runs)
    yield _counter("muster_retention_seconds", "Time that dropping took.", stats.seconds)
    yield gauge("muster_retention_behind", "1: the last look did not come to its end.", stats.is_behind)
    yield gauge(
        "muster_retention_last_run_timestamp_seconds",
        "When the last look began; 0: never.",
        stats.at.timestamp() if stats.at else 0,
    )


def _histogram(name: str, text: str, label: str | None, found: Mapping[str, Timings]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=[label] if label else [])
    for value, times in found.items():
        total, buckets = 0, []
        for edge, count in zip((*map(str, EDGES), "+Inf"), times.buckets, strict=True):
            total += count
            buckets.append((edge, float(total)))
        family.add_metric([value] if label else [], buckets, times.seconds)
    return family


def gauge(name: str, text: str, value: float) -> Metric:
    """One number."""
    family = GaugeMetricFamily(name, text)
    family.add_metric([], float(value))
    return family


def gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """One number for each value of a label."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], float(number))
    return family


def _counters(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family


def _counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric([], value)
    return family
