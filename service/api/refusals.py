"""How often this process said no to protect itself, by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class Refused(StrEnum):
    """Why a request or a connection was refused or given up."""

    RATE = "rate"
    WRONG_KEYS = "wrong_keys"
    STREAMS = "streams"
    BODIES = "bodies"
    SLOW_HEAD = "slow_head"
    SLOW_BODY = "slow_body"
    LARGE_HEAD = "large_head"
    UNREAD_ANSWER = "unread_answer"
    CONNECTIONS = "connections"


class Refusals(Collector):
    """Counted in the event loop only."""

    def __init__(self) -> None:
        self._counts: Counter[Refused] = Counter()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def count(self, reason: Refused) -> None:
        self._counts[reason] += 1

    def of(self, reason: Refused) -> int:
        return self._counts[reason]

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "muster_refused",
            "Requests and connections that this process refused or gave up to protect itself.",
            labels=["reason"],
        )
        for reason in Refused:
            family.add_metric([reason.value], self._counts[reason])
        return [family]

    def render(self) -> bytes:
        return generate_latest(self._registry)
