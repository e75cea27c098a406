"""A gauge: work of the product beside a yardstick, and how both are measured.

A machine that is slow, or busy, is so for both: they take turns, each going first in every other round, so
that their ratio says how much the product costs in units of the yardstick. What disturbs comes and goes, also
in CPU time where cores share what they are made of, so two times count only beside each other: the ratio of
each round is taken, and the median of these.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

#: One run of some work: its seconds, by whatever clock suits it.
Run = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """`product` is the work that should not get slower, `yardstick` what it is measured in; `rounds` of
    each are run, after one that does not count."""

    name: str
    product: Run
    yardstick: Run
    rounds: int


@dataclass(slots=True)
class _Turns:
    product: list[float] = field(default_factory=list)
    yardstick: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(a / b for a, b in zip(self.product, self.yardstick, strict=True))


def measure(gauges: Sequence[Gauge]) -> dict[str, float]:
    """The ratio of each, by name. Gauges take turns too."""
    turns = {gauge.name: _Turns() for gauge in gauges}
    for gauge in gauges:
        gauge.product()
        gauge.yardstick()
    gc.collect()
    for number in range(max(gauge.rounds for gauge in gauges)):
        for gauge in gauges:
            if number < gauge.rounds:
                _take_turns(gauge, turns[gauge.name], is_product_first=number % 2 == 0)
    return {name: each.ratio for name, each in turns.items()}


def _take_turns(gauge: Gauge, turns: _Turns, *, is_product_first: bool) -> None:
    if is_product_first:
        turns.product.append(gauge.product())
    turns.yardstick.append(gauge.yardstick())
    if not is_product_first:
        turns.product.append(gauge.product())


def slowed(gauge: Gauge, *, percent: float) -> Gauge:
    """The same gauge, whose product goes on working for `percent` more of its time."""

    def product() -> float:
        seconds, began_at = gauge.product(), time.thread_time()
        while (more := time.thread_time() - began_at) < seconds * percent / 100:
            pass
        return seconds + more

    return replace(gauge, product=product)
