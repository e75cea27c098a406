"""A site whose running units may give way: submitted and admitted in turn, then asked who would go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from service.admission.held.holds import taken_by
from service.admission.policy import DEFAULT, Policy
from service.admission.preemption.preempt import Preemption, Preemptor
from service.admission.quota.book import QuotaBook
from service.admission.world import Changes
from tests.builders import Group, Site, after


def run(site: Site, *groups: Group, at: float = 0) -> None:
    """Submit the groups one after the other and admit each, whole, at once."""
    for group in groups:
        site.submit(group)
        site.cycle(at)
        assert group.row.id not in site.world.pending, f"{group.row.public_id} does not fit"


def ask(site: Site, group: Group, *, at: float = 100, policy: Policy = DEFAULT) -> Preemption | None:
    """What the planner would do for the group, which is submitted if it does not wait yet."""
    if group.row.id not in site.world.pending:
        site.submit(group)
    return ask_in_one_cycle(site, [group], at=at, policy=policy)[0]


def ask_in_one_cycle(
    site: Site, groups: Iterable[Group], *, at: float = 100, policy: Policy = DEFAULT
) -> list[Preemption | None]:
    """One after the other in one cycle."""
    world = site.world
    before = world.snapshot()
    quota = QuotaBook(world.quota)
    preemptor = Preemptor(world, quota, policy=policy, now=after(at))
    for group in groups:
        if group.row.id not in world.pending:
            site.submit(group)
    before = world.snapshot()
    try:
        found = []
        for group in groups:
            preemption = preemptor.plan(world.pending[group.row.id])
            if preemption is not None:
                world.capacity.take(taken_by(preemption.claim.places, group.shape))
            found.append(preemption)
    finally:
        quota.give_back()
        world.capacity.give_back()
    assert world.snapshot() == before, "the World is left as it was"
    return found


def victims(preemption: Preemption | None) -> list[int]:
    """Groups that give way."""
    return [] if preemption is None else [eviction.unit_id >> 20 for eviction in preemption.evictions]


def change(site: Site, group_id: int, **fields: object) -> None:
    """Another state of what runs of the group."""
    units = [unit for unit in site.world.running.values() if unit.group_id == group_id]
    site.world.apply(Changes(running={unit.id: replace(unit, **fields) for unit in units}))  # type: ignore[arg-type]
