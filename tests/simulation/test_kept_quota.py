"""Admissions behind a dated claim never make its start impossible by quota, on streams in which everything of
the policy meets."""

from __future__ import annotations

from collections.abc import Collection

from service.admission.order.precedence import may_preempt
from service.admission.preemption.usages import usage_at
from service.admission.quota.tree import QuotaTree
from service.admission.resident import World
from service.domain.claim import Claim, ClaimCause
from simulation.replay.loop import Moment
from tests.builders import NOW
from tests.simulation.mixed import HORIZON, simulation_of, site


def test_a_claimant_has_its_quota_at_its_date() -> None:
    looked_at = sum(_claims_that_were_passed(seed) for seed in range(6))
    assert looked_at > 10


def _claims_that_were_passed(seed: int) -> int:
    """How often somebody started behind a claim that others gave way for nobody beside."""
    simulation = simulation_of(site(seed, 120))
    world, before, looked_at = simulation.world, dict[int, Claim](), 0
    for moment in simulation.run(NOW + HORIZON):
        # Who gives way counts as gone from then on, and the quota of whom it is for is kept as well.
        is_plain = not moment.plan.evictions and not moment.plan.resizes
        is_plain &= all(claim.cause is not ClaimCause.PREEMPTION for claim in before.values())
        for claim in world.claims.values() if is_plain else ():
            if claim.cause is ClaimCause.PREEMPTION or before.get(claim.unit_id) != claim:
                continue
            behind = _behind(world, moment, claim, before)
            if behind and _has_quota(world, claim, without=behind):
                looked_at += 1
                assert _has_quota(world, claim, without=())
        before = dict(world.claims)
    return looked_at


def _behind(world: World, moment: Moment, claim: Claim, claims: dict[int, Claim]) -> set[int]:
    """Units that started now and do not go before the claimant."""
    claimant, found = world.pending[claim.unit_id], set()
    for admission in moment.plan.admissions:
        unit, own = world.running[admission.unit_id], claims.get(admission.from_unit_id)
        if own is not None and (own.made_at, own.unit_id) < (claim.made_at, claim.unit_id):
            continue
        queue = world.configuration.queues[unit.queue_id]
        if may_preempt(claimant, unit, queue):
            continue
        if unit.queue_id != claimant.queue_id or unit.priority <= claimant.priority:
            is_nominal = unit.queue_id != claimant.queue_id and not _borrows(world, unit.queue_id)
            if not is_nominal:
                found.add(unit.id)
    return found


def _borrows(world: World, queue_id: int) -> bool:
    node = world.quota.queues[queue_id]
    return any(node.usage.get(name, 0) > node.subtree.get(name, 0) for name in ("mx",))


def _has_quota(world: World, claim: Claim, *, without: Collection[int]) -> bool:
    """In a tree that holds only what is held when the claim is due."""
    held: dict[int, dict[str, int]] = {}
    for unit in world.running.values():
        is_gone = None not in (unit.frees_at, claim.due_at) and unit.frees_at <= claim.due_at  # type: ignore[operator]
        if unit.id in without or is_gone:
            continue
        used = held.setdefault(unit.queue_id, {})
        for name, amount in unit.usage.items():
            used[name] = used.get(name, 0) + amount
    tree, row = QuotaTree(world.configuration, held), world.pending[claim.unit_id]
    need = usage_at(world, row.shape_id, claim.places)
    rooms = {name: tree.available(row.queue_id, name) for name in need}
    return all(room is None or need[name] <= room for name, room in rooms.items())
