"""One run of the admission decision."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from service.admission.backlog import ClassId
from service.admission.claimants import start_claimants
from service.admission.claims import ClaimBook
from service.admission.explain import Explainer
from service.admission.fit import Fitter
from service.admission.growing import with_growing
from service.admission.growth import Grower
from service.admission.line import Key
from service.admission.ordering import Heads
from service.admission.plan import Plan
from service.admission.policy import DEFAULT, Policy
from service.admission.preempt import Preemptor
from service.admission.quota import QuotaBook
from service.admission.resident import World
from service.domain.queue import Order


@dataclass(slots=True)
class Outcome:
    """What became of the heads. `blocked`: classes whose head was tried and did not fit.
    `holding`: in strict queues, the blocked head that everything behind it waits for.
    `finished`: rows of which nothing waits any more."""

    blocked: set[ClassId] = field(default_factory=set)
    holding: dict[int, Key] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)


def plan_cycle(
    world: World,
    now: datetime,
    *,
    policy: Policy = DEFAULT,
    without: Collection[int] = frozenset(),
) -> Plan:
    """Who is admitted and exactly where, and why all others wait.

    Waiting rows `without` are passed over: they are listed and explained, are not admitted and block
    nobody. Leaves the world as it was; the same arguments give the same plan.
    """
    if world.capacity.forget_fields():
        world.memory.shapes.clear()
    # 1. Settle: what each queue holds.
    quota = QuotaBook(world.quota)
    try:
        fitter = Fitter(world.capacity, world.shapes, quota, own_use=world.own_use)
        # 2. Claims: those whose units may still start are kept. Those for whom others gave way start.
        claims = ClaimBook(world, now)
        served = start_claimants(world, fitter=fitter, quota=quota, claims=claims, without=without)
        # 3. Order: whose turn it is, and its best row. Nobody is tried for whom there is no quota, or
        #    no place.
        for shape_id in world.backlog.queues_of:
            fitter.would_miss(shape_id)
        preemptor = Preemptor(world, quota, policy=policy, now=now)
        heads = Heads(
            world,
            fitter,
            now=now,
            without=frozenset(without) | served.passed_over,
            onlooker=preemptor,
            # What is over counts for the turn alone, never for who gives way to whom.
            extra=world.past_use.averages(now),
        )
        # 4. Fit: quota, then places, taking them as it goes. For a blocked head others may give way.
        outcome = Outcome(finished=set(served.finished), holding=dict(served.holding))
        _fit_in_order(world, heads, fitter=fitter, claims=claims, preemptor=preemptor, outcome=outcome)
        # 5. Grow: running groups get what nobody who waits could use.
        growth = Grower(world, now, policy=policy, fitter=fitter, quota=quota).grow(
            without={*without, *outcome.finished},
            leaving={each.unit_id for each in preemptor.evictions}
            | {each.unit_id for each in preemptor.resizes},
        )
        # 6. Explain: everyone who was left out.
        explained = Explainer(world, now, quota=quota, fitter=fitter).explain(
            blocked=outcome.blocked, holding=outcome.holding, finished=outcome.finished
        )
        queues, numbers = with_growing(world, growth, queues=explained[0], numbers=explained[1])
    finally:
        quota.give_back()
        world.capacity.give_back()
    return Plan(
        config_version=world.configuration.version,
        admissions=tuple(fitter.admissions),
        evictions=tuple(preemptor.evictions),
        claims_made=claims.made(),
        claims_ended=claims.ended(),
        wasted=claims.wasted(),
        resizes=(*preemptor.resizes, *growth.resizes),
        queues=queues,
        numbers=numbers,
    )


def _fit_in_order(
    world: World,
    heads: Heads,
    *,
    fitter: Fitter,
    claims: ClaimBook,
    preemptor: Preemptor,
    outcome: Outcome,
) -> None:
    """A head that does not fit blocks its class, for its equals do not fit either. In a strict
    queue it blocks the queue, unless it could never fit. What is done for a blocked head is done at once:
    what it claims is not there for those behind it."""
    while head := heads.pop():
        queue_id, shape_id = head.class_id
        if queue_id in outcome.holding and outcome.holding[queue_id] < head.key:
            heads.close(queue_id)
            continue
        row = world.pending[head.key[4]]
        if fitter.limits.is_over(row):
            heads.push_next(head)
            continue
        fitted = fitter.fit(row, most=head.most, is_within=head.is_within)
        if fitted.placed:
            claims.end(row.id)
        if not fitted.left:
            outcome.finished.add(row.id)
        elif not head.is_within and fitter.limits.is_limited(queue_id) and fitter.limits.binds(row):
            # It is held up by what its owner or group holds, which says nothing of the rows of others.
            fitter.limits.pass_over(row)
            heads.push_next(head)
            continue
        if heads.go_on(head, placed=fitted.placed, left=fitted.left):
            continue
        outcome.blocked.add(head.class_id)
        preemption = preemptor.plan(row)
        if preemption is not None:
            claims.make(preemption.claim)
            heads.push_next(head)
        queue = world.configuration.queues[queue_id]
        if queue.order is Order.STRICT and world.feasibility.fits(
            shape_id, world.shapes[shape_id], world.quota, queue_id
        ):
            outcome.holding[queue_id] = head.key
            heads.close(queue_id)
