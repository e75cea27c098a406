"""Gauges of the decision alone, by the CPU that it takes."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass

from bench.check.gauge import Gauge
from bench.check.yardsticks import python_seconds
from bench.decision import Size, full_site, timed_cycle

#: Rows that change before a plan, and plans that are timed together.
_CHANGES, _PLANS = 100, 5
_ROUNDS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Rows that wait; the larger are as many times as many as limits of growth are stated for."""

    small: int = 2_000
    large: int = 20_000
    queues: int = 200
    nodes: int = 67
    plans: int = _PLANS


def decision_gauges(sizes: Sizes) -> list[Gauge]:
    """What a decision costs in Python's work, and what it costs more when ten times as many wait."""
    return [
        Gauge(
            name="decision",
            product=lambda: decide(sizes, sizes.small),
            yardstick=python_seconds,
            rounds=_ROUNDS,
        ),
        Gauge(
            name=f"decision, {sizes.large // sizes.small} times as many waiting",
            product=lambda: decide(sizes, sizes.large),
            yardstick=lambda: decide(sizes, sizes.small),
            rounds=_ROUNDS,
        ),
    ]


def decide(sizes: Sizes, pending: int) -> float:
    """CPU seconds of some plans, each after as many ends as submissions: the same ones whenever it is
    called, of a site that is made anew."""
    site = full_site(Size(queues=sizes.queues, nodes=sizes.nodes, pending=pending))
    site.timer = time.thread_time
    # As in the leader, whose World the collector spares.
    gc.disable()
    try:
        return sum(timed_cycle(site, _CHANGES)[1] for _ in range(sizes.plans))
    finally:
        gc.enable()
