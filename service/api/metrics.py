"""/metrics in Prometheus' text format. Labels are bounded: states, models, reasons, routes, pools, and
the queues that have waited longest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from service.api.metric_families import families_of
from service.operations.measure import Measurements

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_FRESH_SECONDS = 1.0
_SHARE = 0.05


class RequestTimes:
    """How long this process took to answer, by method and route (never by path), and what else only it
    can tell."""

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

    def show(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Show a number of this process, read at each scrape."""
        Gauge(name, text, registry=self._registry).set_function(read)

    def render(self) -> bytes:
        return generate_latest(self._registry)


class Scrapes:
    """Measures at most once a second, never twice at the same time, and never more than a small share of
    the time: anybody may ask, and what was measured is then as old as that makes it."""

    def __init__(self, measure: Callable[[], bytes]) -> None:
        self._measure = measure
        self._lock = threading.Lock()
        self._until = 0.0
        self._text = b""

    def text(self) -> bytes:
        with self._lock:
            began_at = time.monotonic()
            if began_at >= self._until:
                self._text = self._measure()
                now = time.monotonic()
                self._until = now + max(_FRESH_SECONDS, (now - began_at) / _SHARE)
            return self._text


def render(found: Measurements, *, now: datetime) -> bytes:
    """What was measured as text."""
    registry = CollectorRegistry()
    registry.register(_Found(list(families_of(found, now))))
    return generate_latest(registry)


class _Found(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
