"""/metrics in Prometheus' text format. Labels are bounded: states, models, reasons, routes, and the
queues that have waited longest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from service.inventory.cycle_stats import EDGES, CycleStats
from service.operations.measure import Measurements
from service.store.measure_rows import GpuCount, QueueWait

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: More queues than this are counted together as OTHERS.
_MOST_QUEUES = 200
OTHERS = "(others)"
_FRESH_SECONDS = 1.0
_QUANTILES = (0.5, 0.9, 0.99)


class RequestTimes:
    """How long this process took to answer, by method and route (never by path)."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "muster_request_seconds",
            "Time to answer a request of this process, by route. Submits: POST /v1/groups.",
            ["method", "route", "status"],
            registry=self._registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
        )

    def observe(self, seconds: float, *, method: str, route: str, status: int) -> None:
        """`route` is a path template. The status is kept as its class, such as 2xx."""
        self._seconds.labels(method, route, f"{status // 100}xx").observe(seconds)

    def render(self) -> bytes:
        return generate_latest(self._registry)


class Scrapes:
    """Measures at most once a second and never twice at the same time: anybody may ask, and asking
    must not cost more than that."""

    def __init__(self, measure: Callable[[], bytes]) -> None:
        self._measure = measure
        self._lock = threading.Lock()
        self._until = 0.0
        self._text = b""

    def text(self) -> bytes:
        with self._lock:
            if time.monotonic() >= self._until:
                self._text = self._measure()
                self._until = time.monotonic() + _FRESH_SECONDS
            return self._text


def render(found: Measurements, *, now: datetime) -> bytes:
    """What was measured as text."""
    registry = CollectorRegistry()
    registry.register(_Found(list(_families(found, now))))
    return generate_latest(registry)


class _Found(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(found: Measurements, now: datetime) -> Iterator[Metric]:
    yield _gauges(
        "muster_up",
        "Whether the store answers.",
        "store",
        {"postgresql": found.is_store_up, "redis": found.is_inventory_up},
    )
    if found.is_store_up:
        yield _gpus(found.gpus)
        yield from _waits(found.waits, now)
        yield _gauges("muster_live_units", "Units that hold places.", "status", found.live_units)
    for name, text, values in (
        ("muster_admit_seconds", "From submission to Admitted", found.admit_seconds),
        ("muster_start_seconds", "From submission to Running", found.start_seconds),
        (
            "muster_release_seconds",
            "From the decision to end a group, or the end of its last member, to its places being free",
            found.release_seconds,
        ),
    ):
        if values is not None:
            yield from _quantiles(name, text, values)
    if found.cycles is not None:
        yield from _cycles(found.cycles)
    if found.pending is not None:
        yield _gauges("muster_pending", "What waits, by its first reason.", "reason", found.pending)
    if found.drift is not None:
        drift = GaugeMetricFamily("muster_audit_drift", "Places where books, ledger and processes differ.")
        drift.add_metric([], found.drift)
        yield drift


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
    yield _gauges("muster_oldest_wait_seconds", "Age of the oldest group that waits.", "queue", oldest)
    yield _gauges("muster_waiting_groups", "Groups of which something waits.", "queue", groups)


def _quantiles(name: str, text: str, values: Sequence[float]) -> Iterator[Metric]:
    """Sorted `values` of the last minutes. Without any there is no quantile."""
    family = GaugeMetricFamily(name, f"{text}, of the last five minutes.", labels=["quantile"])
    for share in _QUANTILES if values else ():
        family.add_metric([str(share)], values[min(len(values) - 1, int(share * len(values)))])
    yield family
    count = GaugeMetricFamily(f"{name}_count", f"{text}: how many in the last five minutes.")
    count.add_metric([], len(values))
    yield count


def _cycles(stats: CycleStats) -> Iterator[Metric]:
    total, buckets = 0, []
    for edge, count in zip((*map(str, EDGES), "+Inf"), stats.buckets, strict=True):
        total += count
        buckets.append((edge, float(total)))
    family = HistogramMetricFamily("muster_cycle_seconds", "Time of an admission cycle.")
    family.add_metric([], buckets, stats.seconds)
    yield family
    admitted = CounterMetricFamily("muster_cycle_admissions", "Units that cycles admitted.")
    admitted.add_metric([], stats.admitted)
    yield admitted
    size = GaugeMetricFamily("muster_cycle_size", "Waiting rows that the last cycle left.")
    size.add_metric([], stats.waiting)
    yield size


def _gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], float(number))
    return family
