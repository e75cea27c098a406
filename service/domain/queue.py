"""Queues: where groups wait, and how much they may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.resources import CPUS, MEMORY


class Order(StrEnum):
    """`strict` stops at a blocked head, `best_effort` goes on behind it."""

    STRICT = "strict"
    BEST_EFFORT = "best_effort"


class OrderBy(StrEnum):
    """Who is before whom in a queue, of equal priority: `age` the older, `shortest` whoever has the shorter
    time limit (a group without one counts as endless), `balanced` the older where each is set back by a fifth
    of its time limit, at most 30 days (as a group without one is). Of equals the older."""

    AGE = "age"
    BALANCED = "balanced"
    SHORTEST = "shortest"


class Stop(StrEnum):
    """`hold` takes submissions and admits nobody; `hold_and_drain` also evicts what runs."""

    NONE = "none"
    HOLD = "hold"
    HOLD_AND_DRAIN = "hold_and_drain"


class PreemptWithin(StrEnum):
    """Whether groups of a queue may evict groups of lower priority in the same queue."""

    NEVER = "never"
    LOWER_PRIORITY = "lower_priority"


class Reclaim(StrEnum):
    """From whom groups of a queue may take places back: from queues of the cohort that hold more than
    their nominal quota (`lower_priority`: only groups of lower priority there, `any`: all), and with
    `fair_share` also from a queue whose share afterwards is still at least that of the own queue."""

    NEVER = "never"
    LOWER_PRIORITY = "lower_priority"
    ANY = "any"
    FAIR_SHARE = "fair_share"


class Filling(StrEnum):
    """Whether groups of a queue are packed on as few nodes as will do, or spread over many."""

    PACK = "pack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """What a queue says besides its amounts. Times in seconds.

    `weight` 0: last, not never. `flavors` and `pools` None: all. `user_limit` and `group_limit`: the most
    that one user, or one group, may hold in the queue, by resource. `highest_priority` by role of a user.
    `min_runtime_seconds`: a group that runs is not preempted before; `evictions_per_day`: nor more often
    (None: no bound)."""

    weight: float = 1.0
    order_by: OrderBy = OrderBy.AGE
    preempt_within: PreemptWithin = PreemptWithin.NEVER
    reclaim: Reclaim = Reclaim.NEVER
    filling: Filling = Filling.PACK
    flavors: tuple[str, ...] | None = None
    pools: tuple[str, ...] | None = None
    user_limit: Mapping[str, int] = field(default_factory=dict)
    group_limit: Mapping[str, int] = field(default_factory=dict)
    highest_priority: Mapping[str, int] = field(default_factory=dict)
    default_time_limit_seconds: int | None = None
    max_time_limit_seconds: int | None = None
    min_runtime_seconds: int = 0
    evictions_per_day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Amounts by resource: flavors in GPUs, `cpus` in thousandths, `memory` in MiB.

    `nominal` None means no quota at all. Otherwise a flavor that is not named has 0, and CPUs
    and memory that are not named are unlimited. `limit` names hard limits; a resource that is not
    named has none. `borrowing`: how much above its nominal quota may be taken from the cohort, not named:
    no bound; `lending`: how much of it others may take, not named: all.
    """

    nominal: Mapping[str, int] | None = None
    limit: Mapping[str, int] | None = None
    borrowing: Mapping[str, int] = field(default_factory=dict)
    lending: Mapping[str, int] = field(default_factory=dict)

    def above_nominal(self, used: Mapping[str, int]) -> dict[str, int]:
        """Of what is used, by resource, what is more than the nominal quota."""
        if self.nominal is None:
            return {}
        above = {
            resource: amount - self.nominal.get(resource, 0)
            for resource, amount in used.items()
            if resource in self.nominal or resource not in (CPUS, MEMORY)
        }
        return {resource: amount for resource, amount in above.items() if amount > 0}
