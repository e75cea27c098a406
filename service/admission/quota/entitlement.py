"""Who may take places from whom. There is one predicate for both sides, and it looks at nothing but what is
held: what one unit may take is what the other must give, so no two queues take from each other for ever.

- Within a queue by priority, if the queue says so.
- Reclaim: the claimant's queue stays within its nominal quota, and the victim's holds more than its own of
  something that both use; of nominal quota nobody may be kept.
- Fair share: the victim's queue holds, without the victim, still at least its nominal quota, and its share
  is then at least that of the claimant's queue with the claimant, both below their lowest common cohort.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from service.admission.quota.tree import QuotaTree
from service.admission.world import PendingUnit, Queue, RunningUnit
from service.domain.preemption import Entitlement
from service.domain.queue import PreemptWithin, Reclaim


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


def may_preempt(queue: Queue) -> bool:
    """Whether groups of the queue may take places from anybody."""
    policy = queue.policy
    return policy.preempt_within is not PreemptWithin.NEVER or policy.reclaim is not Reclaim.NEVER


def may_take(claimant: Claimant, victim: RunningUnit, tree: QuotaTree) -> Entitlement | None:
    """By what right the claimant may take the places of the victim, as the tree stands; None: by none."""
    if victim.queue_id == claimant.row.queue_id:
        return _may_take_within(claimant, victim)
    if not _may_be_taken(claimant, victim):
        return None
    right = _right_to(claimant, victim, tree)
    if victim.id in claimant.spared and (right is not Entitlement.RECLAIM or claimant.is_patient):
        return None
    return right


def entitlements_within(claimant: Claimant, victims: Iterable[RunningUnit]) -> tuple[Entitlement, ...] | None:
    """The same of all `victims`, which are of the claimant's queue; None if one of them may not be taken."""
    found = [_may_take_within(claimant, victim) for victim in victims]
    rights = tuple(right for right in found if right is not None)
    return rights if len(rights) == len(found) else None


def _may_be_taken(claimant: Claimant, victim: RunningUnit) -> bool:
    return not claimant.row.has_never_run and victim.is_preemptible and victim.evicting_until is None


def _may_take_within(claimant: Claimant, victim: RunningUnit) -> Entitlement | None:
    """By priority, if the queue says so: what anybody holds decides nothing."""
    may_within = claimant.queue.policy.preempt_within is PreemptWithin.LOWER_PRIORITY
    is_lower = victim.priority < claimant.row.priority
    is_taken = may_within and is_lower and victim.id not in claimant.spared
    return Entitlement.PRIORITY if is_taken and _may_be_taken(claimant, victim) else None


def _right_to(claimant: Claimant, victim: RunningUnit, tree: QuotaTree) -> Entitlement | None:
    """Over a unit of another queue."""
    row, policy = claimant.row, claimant.queue.policy
    is_lower = victim.priority < row.priority
    if policy.reclaim is Reclaim.NEVER or not are_in_one_tree(row.queue_id, victim.queue_id, tree):
        return None
    may_reclaim = policy.reclaim is not Reclaim.LOWER_PRIORITY or is_lower
    if may_reclaim and stays_within_nominal(claimant, tree) and _is_above_nominal(claimant, victim, tree):
        return Entitlement.RECLAIM
    if policy.reclaim is Reclaim.FAIR_SHARE and _is_fair(claimant, victim, tree):
        return Entitlement.FAIR_SHARE
    return None


def stays_within_nominal(claimant: Claimant, tree: QuotaTree) -> bool:
    """Whether the queue holds no more than its nominal quota with the claimant. A unit that may not be
    preempted may use nothing else."""
    return tree.is_within_nominal(claimant.row.queue_id, claimant.usage)


def are_in_one_tree(one: int, other: int, tree: QuotaTree) -> bool:
    """Whether two queues lend to each other, over however many cohorts."""
    if one not in tree.queues or other not in tree.queues:
        return False
    return tree.queues[one].root is tree.queues[other].root


def entitlements(
    claimant: Claimant, victims: Sequence[RunningUnit], tree: QuotaTree
) -> tuple[Entitlement, ...] | None:
    """By what right all of `victims` may be taken, one after the other: those of the own queue first, then
    those that use least, so that a large one is the last that a queue above its quota gives. In the order
    of `victims`; None if one of them may not be taken."""
    found: dict[int, Entitlement] = {}
    order = sorted(victims, key=lambda victim: _turn(claimant, victim))
    with _one_by_one(order, tree) as taking:
        for victim in taking:
            right = may_take(claimant, victim, tree)
            if right is None:
                return None
            found[victim.id] = right
    return tuple(found[victim.id] for victim in victims)


@contextmanager
def _one_by_one(victims: Iterable[RunningUnit], tree: QuotaTree) -> Iterator[Iterator[RunningUnit]]:
    """Each victim is off the tree when the next one is asked for, and all are on it again at the end."""
    gone: list[RunningUnit] = []

    def taking() -> Iterator[RunningUnit]:
        for victim in victims:
            yield victim
            tree.refund(victim.queue_id, victim.usage)
            gone.append(victim)

    try:
        yield taking()
    finally:
        for victim in gone:
            tree.charge(victim.queue_id, victim.usage)


def _turn(claimant: Claimant, victim: RunningUnit) -> tuple[bool, int, int]:
    used = sum(victim.usage.get(resource, 0) for resource, amount in claimant.usage.items() if amount)
    return victim.queue_id != claimant.row.queue_id, used, victim.id


def _is_above_nominal(claimant: Claimant, victim: RunningUnit, tree: QuotaTree) -> bool:
    """In something that the claimant needs and the victim would give back."""
    return any(
        tree.excess(victim.queue_id, resource) > 0
        for resource, amount in claimant.usage.items()
        if amount and victim.usage.get(resource)
    )


def _is_fair(claimant: Claimant, victim: RunningUnit, tree: QuotaTree) -> bool:
    """Only what is borrowed is shared out: else the owner would take its nominal quota back at once."""
    if any(
        tree.excess(victim.queue_id, resource) < amount
        for resource, amount in victim.usage.items()
        if amount and tree.queues[victim.queue_id].counts(resource)
    ):
        return False
    tree.charge(claimant.row.queue_id, claimant.usage)
    tree.refund(victim.queue_id, victim.usage)
    shares = tree.shares(claimant.row.queue_id, victim.queue_id)
    tree.charge(victim.queue_id, victim.usage)
    tree.refund(claimant.row.queue_id, claimant.usage)
    return shares.claimant < inf and shares.victim >= shares.claimant
