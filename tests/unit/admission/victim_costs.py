"""What a preemption costs, and figures of many compared with the least."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import inf

from service.admission.policy import DEFAULT
from service.admission.preemption.preempt import Preemptor
from service.admission.quota.book import QuotaBook
from service.admission.resident import World
from service.admission.world import PendingUnit
from tests.unit.admission.preemption_oracle import Cost


def cost_of(world: World, row: PendingUnit, *, now: datetime, most_exact: int) -> tuple[Cost, int] | None:
    """The cost of the victims that the planner chooses, and how many they are; None if nobody gives way."""
    quota = QuotaBook(world.quota)
    found = Preemptor(world, quota, policy=DEFAULT, now=now, most_exact=most_exact).plan(row)
    quota.give_back()
    world.capacity.give_back()
    if found is None:
        return None
    receipts = {each.unit_id: each.receipt for each in found.evictions}
    receipts |= {each.unit_id: each.receipt for each in found.resizes if each.receipt is not None}
    priority = max(world.running[unit_id].priority for unit_id in receipts)
    lost = sum(receipt.lost_gpu_seconds for receipt in receipts.values())
    return (priority, lost), len(receipts)


@dataclass
class Figures:
    """`several`: cases with more than one victim; `worst`: the largest cost, in multiples of the least."""

    placed: int = 0
    several: int = 0
    optimal: int = 0
    worst: float = 1.0

    def add(self, found: tuple[Cost, int] | None, best: Cost | None, *, case: str) -> None:
        """`best`: the least cost, as an oracle says; (0, 0) if nobody has to go."""
        if best is None or best == (0, 0):
            assert found is None, f"{case}: nobody may, or has to, give way"
            return
        assert found is not None, f"{case}: {best} would do"
        cost, victims = found
        self.placed += 1
        self.several += victims > 1
        self.optimal += cost[0] == best[0] and cost[1] <= best[1] * (1 + 1e-9)
        self.worst = max(self.worst, cost[1] / best[1] if cost[0] == best[0] else inf)

    def __str__(self) -> str:
        share = 100 * self.optimal / max(1, self.placed)
        return (
            f"{self.placed} with victims ({self.several} with several),"
            f" {share:.1f} % at the least cost, at most {self.worst:.2f} times it"
        )
