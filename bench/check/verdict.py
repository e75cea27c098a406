"""Which gauges got slower, by a method that is stated before anything is measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.check.gauge import Gauge, measure

#: So much more than the stored ratio fails.
MOST = 1.2
#: A gauge that is above, or has nothing stored, is measured so often in all, and the median counts.
TIMES = 3


@dataclass(slots=True, kw_only=True)
class Verdict:
    """`stored` None: there is no such ratio yet. `measured`: once, or TIMES times."""

    name: str
    stored: float | None
    measured: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(self.measured)

    @property
    def change(self) -> float:
        """Of the ratio to the stored one; 1 without one."""
        return 1.0 if self.stored is None else self.ratio / self.stored

    @property
    def is_slower(self) -> bool:
        return self.change > MOST

    @property
    def is_doubtful(self) -> bool:
        """It is measured again: it is above, or will be what others are compared with."""
        return self.stored is None or self.is_slower


def judge(
    gauges: Sequence[Gauge], stored: Mapping[str, float], *, say: Callable[[str], None]
) -> list[Verdict]:
    """Measure all, then once and again those that are above, or have nothing stored."""
    verdicts = {gauge.name: Verdict(name=gauge.name, stored=stored.get(gauge.name)) for gauge in gauges}
    for name, ratio in measure(gauges).items():
        verdicts[name].measured.append(ratio)
    again = [gauge for gauge in gauges if verdicts[gauge.name].is_doubtful]
    for _ in range(TIMES - 1):
        if again:
            say(f"measured again: {', '.join(gauge.name for gauge in again)}")
            for name, ratio in measure(again).items():
                verdicts[name].measured.append(ratio)
    return list(verdicts.values())
