"""Queues: where groups wait, and how much they may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.domain.resources import CPUS, MEMORY


class Order(StrEnum):
    """`strict` stops at a blocked head, `best_effort` goes on behind it."""

    STRICT = "strict"
    BEST_EFFORT = "best_effort"


class Stop(StrEnum):
    """`hold` takes submissions and admits nobody; `hold_and_drain` also evicts what runs."""

    NONE = "none"
    HOLD = "hold"
    HOLD_AND_DRAIN = "hold_and_drain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Amounts by resource: flavors in GPUs, `cpus` in thousandths, `memory` in MiB.

    `nominal` None means no quota at all. Otherwise a flavor that is not named has 0, and CPUs
    and memory that are not named are unlimited. `limit` names hard limits; a resource that is not
    named has none.
    """

    nominal: Mapping[str, int] | None = None
    limit: Mapping[str, int] | None = None

    def ceiling(self, resource: str) -> int | None:
        """The most that the queue may hold of `resource`, None for no bound (no cohorts yet)."""
        bounds = [bound for bound in (self._nominal(resource), self._limit(resource)) if bound is not None]
        return min(bounds) if bounds else None

    def _nominal(self, resource: str) -> int | None:
        if self.nominal is None:
            return None
        if resource in (CPUS, MEMORY):
            return self.nominal.get(resource)
        return self.nominal.get(resource, 0)

    def _limit(self, resource: str) -> int | None:
        return None if self.limit is None else self.limit.get(resource)
