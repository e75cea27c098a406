"""Use that is over, and counts yet when waiting units are ordered: by queue and resource, decayed.

What is held now is not in it. What an attempt held counts from its end on, as far as it is charged; the
ledger in PostgreSQL says how much that is at an instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import log

from service.domain.status import NOT_CHARGED, Cause

QueueResource = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Amount times seconds (GPUs, thousandths of a CPU, MiB) that count at `as_of`."""

    queue_id: int
    resource: str
    amount_seconds: float
    as_of: datetime


@dataclass(slots=True)
class PastUse:
    """`half_life_seconds` 0: nothing that is over counts."""

    half_life_seconds: float = 0.0
    _counting: dict[QueueResource, tuple[float, datetime]] = field(default_factory=dict)

    def add(self, charges: Iterable[Charge]) -> None:
        """Each charge once; whoever adds sees to that."""
        for charge in charges:
            key = charge.queue_id, charge.resource
            amount, as_of = self._counting.get(key, (0.0, charge.as_of))
            later = max(as_of, charge.as_of)
            kept, added = self._decayed(amount, as_of, later), charge.amount_seconds
            self._counting[key] = kept + self._decayed(added, charge.as_of, later), later

    def averages(self, now: datetime) -> Mapping[int, Mapping[str, float]]:
        """By queue and resource, in amounts: what would be held now if it had been held always, to count
        as much. What holds the same amount for ever comes up to it."""
        if not self._counting or self.half_life_seconds <= 0:
            return {}
        found: dict[int, dict[str, float]] = {}
        for (queue_id, resource), (amount, as_of) in self._counting.items():
            average = self._decayed(amount, as_of, now) * log(2) / self.half_life_seconds
            found.setdefault(queue_id, {})[resource] = average
        return found

    def _decayed(self, amount: float, as_of: datetime, now: datetime) -> float:
        if self.half_life_seconds <= 0:
            return 0.0
        # A launcher's clock may be ahead.
        seconds = max(0.0, (now - as_of).total_seconds())
        return float(amount * 2.0 ** (-seconds / self.half_life_seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Amounts by resource that an attempt held from one instant to another."""

    usage: Mapping[str, int]
    began_at: datetime
    ended_at: datetime


def charges_of(
    queue_id: int, held: Iterable[Held], *, ended_at: datetime, cause: Cause | None, half_life_seconds: float
) -> Iterator[Charge]:
    """What a closed attempt counts at its end, as the ledger in PostgreSQL reckons it: an amount a that was
    held for d seconds counts a * (1 - 2^(-d/h)) * h / ln 2 when they are over, and decays from then on."""
    if half_life_seconds <= 0 or cause in NOT_CHARGED:
        return
    counted: dict[str, float] = {}
    for each in held:
        lived = max(0.0, (each.ended_at - each.began_at).total_seconds()) / half_life_seconds
        since = max(0.0, (ended_at - each.ended_at).total_seconds()) / half_life_seconds
        counts = half_life_seconds / log(2) * (1.0 - 2.0**-lived) * 2.0**-since
        for resource, amount in each.usage.items():
            if amount:
                counted[resource] = counted.get(resource, 0.0) + amount * counts
    for resource, amount_seconds in sorted(counted.items()):
        yield Charge(queue_id=queue_id, resource=resource, amount_seconds=amount_seconds, as_of=ended_at)
