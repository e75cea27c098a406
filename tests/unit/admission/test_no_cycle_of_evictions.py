"""Whatever queues say of preemption, evictions come to an end: who gave way waits again, and after a while
nobody takes from anybody. Groups never end by themselves, and nothing protects them: no minimum runtime, no
bound of evictions."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import pytest

from service.admission.cycle import plan_cycle
from service.admission.plan import Plan
from service.admission.world import Changes, Cohort, Configuration, PendingUnit, Queue, RunningUnit
from service.domain.preemption import Entitlement
from service.domain.queue import Order, PreemptWithin, Quota, Reclaim
from tests.builders import Group, Site, after, cohort, configuration, gang, node, queue, role

CASES = 240
BATCHES = 2
#: Far more cycles than any of these sites needs; a cycle of evictions never ends.
MOST_CYCLES = 200
MODELS = ("ma", "mb")


def _cohorts(rng: random.Random) -> list[Cohort]:
    """Two cohorts, perhaps in a third, which is perhaps in a fourth, perhaps with amounts of their own."""
    top = 3 if rng.random() < 0.6 else None

    def quota() -> Quota:
        nominal = {model: rng.choice((0, 0, 2, 4)) for model in MODELS}
        lending = {"ma": rng.randint(0, 4)} if top and rng.random() < 0.3 else {}
        return Quota(nominal=nominal, lending=lending)

    lower = [
        replace(cohort(number), parent_id=top, weight=rng.choice((1, 1, 2)), quota=quota())
        for number in (1, 2)
    ]
    return [*lower, replace(cohort(3), parent_id=rng.choice((None, 4)), quota=quota()), cohort(4)]


def _queue(rng: random.Random, queue_id: int) -> Queue:
    return queue(
        queue_id,
        order=rng.choice((Order.BEST_EFFORT, Order.BEST_EFFORT, Order.STRICT)),
        cohort=rng.choice((1, 1, 2)),
        nominal={model: rng.choice((0, 0, 1, 2, 3, 5)) for model in MODELS},
        borrowing={"ma": rng.randint(0, 3)} if rng.random() < 0.2 else None,
        weight=rng.choice((1, 1, 1, 0.5, 3, 0)),
        preempt_within=rng.choice(list(PreemptWithin)),
        reclaim=rng.choice((*Reclaim, Reclaim.ANY, Reclaim.FAIR_SHARE, Reclaim.FAIR_SHARE)),
    )


def _group(rng: random.Random, group_id: int) -> Group:
    roles = [
        role(
            rng.randint(1, 2), rng.choice((1, 1, 2, 3)), name=name, models=rng.choice(((), ("ma",), ("mb",)))
        )
        for name in rng.choice((["a"], ["a"], ["a", "b"]))
    ]
    fields = {"queue_id": rng.randint(1, 4), "priority": rng.randint(0, 2), "at": rng.randint(-9, 0)}
    made = gang(group_id, *roles, **fields)  # type: ignore[arg-type]
    return Group(replace(made.row, is_preemptible=rng.random() < 0.95), made.shape)


def _mixed_site(rng: random.Random) -> Site:
    nodes = [node(number, rng.randint(1, 4), model=rng.choice(MODELS)) for number in range(1, 5)]
    made = Site()
    config: Configuration = configuration(
        nodes, [_queue(rng, queue_id) for queue_id in range(1, 5)], cohorts=_cohorts(rng)
    )
    made.world.apply(Changes(configuration=config))
    return made


def _small_group(rng: random.Random, group_id: int) -> Group:
    """Queues come one after the other, and again."""
    member = role(rng.randint(1, 2), models=("ma",))
    return gang(group_id, member, queue_id=1 + group_id // 5 % 3, priority=rng.choice((0, 0, 0, 1)))


def _site_of_rivals(rng: random.Random) -> Site:
    """Queues that all may take from each other, and are all about equally strong."""
    nodes = [node(number, rng.randint(2, 4), model="ma") for number in range(1, 4)]
    reclaim = rng.choice((Reclaim.ANY, Reclaim.FAIR_SHARE))
    queues = [
        queue(
            queue_id,
            cohort=1 + queue_id % 2,
            nominal={"ma": rng.choice((2, 3, 4)) if reclaim is Reclaim.ANY else 0},
            weight=rng.choice((1, 1, 2)),
            preempt_within=PreemptWithin.LOWER_PRIORITY,
            reclaim=reclaim,
        )
        for queue_id in range(1, 5)
    ]
    cohorts = [
        replace(cohort(number), parent_id=above, quota=Quota(nominal={"ma": own}))
        for number, above, own in ((1, 3, 1), (2, 3, 1), (3, 4, 0), (4, None, 12))
    ]
    made = Site()
    made.world.apply(Changes(configuration=configuration(nodes, queues, cohorts=cohorts)))
    return made


@dataclass
class _Stream:
    """Groups arrive, and some are cancelled so that others get their turn, and then nothing more happens
    from outside. `takers`: by what right which queue took from which."""

    rng: random.Random
    site: Site
    arrivals: list[Group]
    rows: dict[int, PendingUnit] = field(default_factory=dict)
    takers: dict[Entitlement, Counter[tuple[int, int]]] = field(default_factory=lambda: defaultdict(Counter))
    cycles: int = 0

    def run(self) -> None:
        """Until nothing has moved for three cycles."""
        quiet = 0
        while quiet < 3:
            self.cycles += 1
            assert self.cycles < MOST_CYCLES, "evictions go on for ever"
            quiet = quiet + 1 if self._is_quiet() else 0

    def _is_quiet(self) -> bool:
        """One cycle."""
        rng, world = self.rng, self.site.world
        may_end = bool(self.arrivals)
        for group in [self.arrivals.pop() for _ in range(min(len(self.arrivals), rng.randint(1, 3)))]:
            self.site.submit(group)
            self.rows[group.row.id] = group.row
        if may_end and world.running and rng.random() < 0.5:
            self._end(rng.choice(sorted(world.running)))
        now = after(60 * self.cycles)
        plan = plan_cycle(world, now)
        self._note(plan)
        world.admit(plan.admissions, now)
        world.keep_claims(plan.claims_made, ended=plan.claims_ended)
        for eviction in plan.evictions:
            world.give_way(eviction.unit_id, now, preempted_at=(now,))
        # Those that give way are gone before the next cycle, or a few cycles later.
        gone = [unit for unit in world.leaving.values() if rng.random() < 0.7]
        again = {unit.id: self._again(unit) for unit in gone}
        self.rows.update(again)
        world.apply(Changes(pending=again))
        has_moved = plan.evictions or plan.admissions or plan.claims_made or may_end or gone
        return not has_moved and not world.leaving

    def _end(self, unit_id: int) -> None:
        self.site.world.apply(Changes(gone=frozenset({unit_id})))

    def _note(self, plan: Plan) -> None:
        claimed = {claim.unit_id for claim in plan.claims_made}
        for eviction in plan.evictions:
            receipt = eviction.receipt
            assert receipt.claimant_id in claimed
            victim = self.site.world.running[eviction.unit_id]
            taken = self.rows[receipt.claimant_id].queue_id, victim.queue_id
            self.takers[receipt.entitlement][taken] += 1

    def _again(self, unit: RunningUnit) -> PendingUnit:
        """Waits again at its old place in the order; it had run."""
        row = self.rows[unit.id]
        return replace(row, attempt=unit.attempt + 1, version=row.version + 2)


def _run(number: int) -> _Stream:
    rng, are_rivals = random.Random(number), number % 2 == 0
    site = _site_of_rivals(rng) if are_rivals else _mixed_site(rng)
    make, most = (_small_group, 40) if are_rivals else (_group, 30)
    stream = _Stream(rng, site, [make(rng, group_id) for group_id in range(1, rng.randint(8, most))])
    stream.run()
    assert not site.world.claims, f"case {number}: somebody waits for nobody"
    return stream


@pytest.mark.parametrize("batch", range(BATCHES))
def test_evictions_come_to_an_end(batch: int) -> None:
    """On half of the sites queues are as different as can be, on the others they are rivals."""
    evictions: Counter[Entitlement] = Counter()
    both_ways: Counter[Entitlement] = Counter()
    longest = 0
    for number in range(batch * CASES // BATCHES, (batch + 1) * CASES // BATCHES):
        stream = _run(number)
        longest = max(longest, stream.cycles)
        for right, takers in stream.takers.items():
            evictions[right] += takers.total()
            both_ways[right] += sum((of, by) in takers for by, of in takers if by < of)
    print(f"evictions: {dict(evictions)}, pairs of queues both ways: {dict(both_ways)}, {longest} cycles")
    assert min(evictions[right] for right in Entitlement) > 5
    assert min(both_ways[Entitlement.RECLAIM], both_ways[Entitlement.FAIR_SHARE]) > 0
