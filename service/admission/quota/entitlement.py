"""Who may take places from whom. There is one predicate for both sides, and it looks at nothing but what is
held: what one unit may take is what the other must give, so no two queues take from each other for ever.

- Within a queue by priority, if the queue says so.
- Reclaim: the claimant's queue stays within its nominal quota, and the victim's holds more than its own of
  something that both use; of nominal quota nobody may be kept.
- Fair share: the victim's queue holds, without the victim, still at least its nominal quota, and its share
  is then at least that of the claimant's queue with the claimant, both below their lowest common cohort.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf

from service.admission.quota.nodes import QuotaNode
from service.admission.quota.shares import share_of, where_they_part
from service.admission.quota.tree import QuotaTree
from service.admission.world import PendingUnit, Queue, RunningUnit
from service.domain.preemption import Entitlement
from service.domain.queue import PreemptWithin, Reclaim

_NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A waiting unit that would take `usage`, which its queue does not hold yet. `spared`: units that have
    not run long enough, or were preempted often enough; the reclaim of nominal quota is delayed by
    that only while `is_patient`."""

    row: PendingUnit
    queue: Queue
    usage: Mapping[str, int]
    spared: Collection[int] = frozenset()
    is_patient: bool = False


class Rights:
    """Of one claimant, when some units are gone already. The tree stays as it is: what they held is taken off
    the numbers that are looked at."""

    def __init__(self, claimant: Claimant, tree: QuotaTree) -> None:
        self._claimant = claimant
        self._tree = tree
        self._queue_id = claimant.row.queue_id
        self._own = tree.queues.get(self._queue_id)
        self._within = claimant.queue.policy.preempt_within
        self._reclaim = claimant.queue.policy.reclaim
        #: So much its queue has to give before it holds no more than its nominal quota with the claimant.
        self._over = {} if self._own is None else _over(self._own, claimant.usage)
        self._needed = [resource for resource, amount in claimant.usage.items() if amount]
        #: What those held that are gone, by queue, and by whatever is above it.
        self._gone: dict[QuotaNode, dict[str, int]] = {}
        #: By queue: where it and the claimant's part.
        self._sides: dict[int, tuple[QuotaNode, QuotaNode]] = {}

    def take(self, victim: RunningUnit) -> None:
        """It is gone."""
        self._move(victim, 1)

    def put_back(self, victim: RunningUnit) -> None:
        self._move(victim, -1)

    def to(self, victim: RunningUnit) -> Entitlement | None:
        """By what right the claimant may take the places of the victim; None: by none."""
        row = self._claimant.row
        if row.has_never_run or not victim.is_preemptible or victim.evicting_until is not None:
            return None
        if victim.queue_id == self._queue_id:
            return self._within_queue(victim)
        right = self._to_other(victim)
        if victim.id in self._claimant.spared and (
            right is not Entitlement.RECLAIM or self._claimant.is_patient
        ):
            return None
        return right

    def to_all(self, victims: Collection[RunningUnit]) -> dict[int, Entitlement] | None:
        """By what right all may be taken, one after the other: those of the own queue first, then those that
        use least, so that a large one is the last that a queue above its quota gives. Nobody else is gone.
        None if one of them may not be taken."""
        found: dict[int, Entitlement] = {}
        self._gone.clear()
        for victim in sorted(victims, key=self._turn):
            right = self.to(victim)
            if right is None:
                break
            found[victim.id] = right
            self.take(victim)
        self._gone.clear()
        return found if len(found) == len(victims) else None

    def is_within_nominal(self) -> bool:
        """Whether the claimant's queue holds no more than its nominal quota with it. A unit that may not be
        preempted may use nothing else."""
        gone = _NOTHING if self._own is None else self._gone.get(self._own, _NOTHING)
        return all(gone.get(resource, 0) >= amount for resource, amount in self._over.items())

    def _within_queue(self, victim: RunningUnit) -> Entitlement | None:
        """By priority, if the queue says so: what anybody holds decides nothing."""
        is_lower = victim.priority < self._claimant.row.priority
        is_taken = (
            self._within is PreemptWithin.LOWER_PRIORITY
            and is_lower
            and victim.id not in self._claimant.spared
        )
        return Entitlement.PRIORITY if is_taken else None

    def _to_other(self, victim: RunningUnit) -> Entitlement | None:
        """Over a unit of another queue."""
        tree, row = self._tree, self._claimant.row
        if self._reclaim is Reclaim.NEVER or not are_in_one_tree(self._queue_id, victim.queue_id, tree):
            return None
        may_reclaim = self._reclaim is not Reclaim.LOWER_PRIORITY or victim.priority < row.priority
        if may_reclaim and self.is_within_nominal() and self._is_above_nominal(victim):
            return Entitlement.RECLAIM
        if self._reclaim is Reclaim.FAIR_SHARE and self._is_fair(victim):
            return Entitlement.FAIR_SHARE
        return None

    def _is_above_nominal(self, victim: RunningUnit) -> bool:
        """In something that the claimant needs and the victim would give back."""
        return any(
            self._excess(victim.queue_id, resource) > 0
            for resource in self._needed
            if victim.usage.get(resource)
        )

    def _is_fair(self, victim: RunningUnit) -> bool:
        """Only what is borrowed is shared out: else the owner would take its nominal quota back at once."""
        queue = self._tree.queues[victim.queue_id]
        if any(
            self._excess(victim.queue_id, resource) < amount
            for resource, amount in victim.usage.items()
            if amount and queue.counts(resource)
        ):
            return False
        sides = self._sides.get(victim.queue_id)
        if sides is None:
            sides = where_they_part(self._tree.queues[self._queue_id], queue)
            self._sides[victim.queue_id] = sides
        share = self._share(sides[0], self._claimant.usage, 1)
        return share < inf and self._share(sides[1], victim.usage, -1) >= share

    def _share(self, node: QuotaNode, usage: Mapping[str, int], sign: int) -> float:
        """With so much more, or less, besides what is gone."""
        gone = self._gone.get(node, _NOTHING)
        more = {resource: sign * amount - gone.get(resource, 0) for resource, amount in usage.items()}
        more |= {resource: -amount for resource, amount in gone.items() if resource not in more}
        return share_of(node, self._tree.capacity, more)

    def _excess(self, queue_id: int, resource: str) -> int:
        gone = self._gone.get(self._tree.queues[queue_id])
        excess = self._tree.excess(queue_id, resource)
        return excess if gone is None else max(0, excess - gone.get(resource, 0))

    def _move(self, victim: RunningUnit, sign: int) -> None:
        node = self._tree.queues.get(victim.queue_id)
        if node is None:
            return
        for each in node.line if self._reclaim is Reclaim.FAIR_SHARE else (node,):
            gone = self._gone.setdefault(each, {})
            for resource, amount in victim.usage.items():
                gone[resource] = gone.get(resource, 0) + sign * amount

    def _turn(self, victim: RunningUnit) -> tuple[bool, int, int]:
        used = sum(victim.usage.get(resource, 0) for resource in self._needed)
        return victim.queue_id != self._queue_id, used, victim.id


def are_in_one_tree(one: int, other: int, tree: QuotaTree) -> bool:
    """Whether two queues lend to each other, over however many cohorts."""
    if one not in tree.queues or other not in tree.queues:
        return False
    return tree.queues[one].root is tree.queues[other].root


def _over(node: QuotaNode, usage: Mapping[str, int]) -> dict[str, int]:
    if not node.has_quota:
        return {}
    over = {
        resource: node.held.get(resource, 0) + amount - node.nominal.get(resource, 0)
        for resource, amount in usage.items()
        if amount and node.counts(resource)
    }
    return {resource: amount for resource, amount in over.items() if amount > 0}
