"""One run of the admission decision."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from service.admission.claims.backfill import Backfill
from service.admission.claims.book import ClaimBook
from service.admission.claims.claimants import start_claimants
from service.admission.claims.dating import Ends
from service.admission.claims.kept_quota import KeptQuota
from service.admission.claims.promised import Promised
from service.admission.fit import Fitter
from service.admission.growth.grower import Grower
from service.admission.growth.growing import with_growing
from service.admission.order.openings import Openings
from service.admission.order.ordering import Head, Heads
from service.admission.order.precedence import Precedence
from service.admission.plan import Plan, QueueVerdict
from service.admission.policy import DEFAULT, Policy
from service.admission.preemption.delayed import with_delays
from service.admission.preemption.preempt import Preemptor
from service.admission.quota.book import QuotaBook
from service.admission.reasons.explain import Explainer
from service.admission.reservation.asked_heads import Onlookers
from service.admission.reservation.books import Books
from service.admission.reservation.guard_clock import GuardClocks, Noted
from service.admission.reservation.reserve import Reserver
from service.admission.resident import World
from service.admission.state.memory import Numbers
from service.admission.waiting.backlog import ClassId
from service.admission.waiting.line import Key
from service.admission.world import PendingUnit
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
    nobody. Leaves the world as it is at `now`; the same arguments give the same plan.
    """
    world.move_to(now)
    if world.capacity.forget_fields():
        world.memory.shapes.clear()
    quota = QuotaBook(world.quota)
    try:
        return _plan(world, now, policy=policy, without=without, quota=quota)
    finally:
        quota.give_back()
        world.capacity.give_back()


def _plan(world: World, now: datetime, *, policy: Policy, without: Collection[int], quota: QuotaBook) -> Plan:
    # 1. Settle: what each queue holds is in the book of quotas, what is free in the capacity.
    fitter = Fitter(world.capacity, world.shapes, quota, own_use=world.own_use)
    ends = Ends(world, now)
    # 2. Claims: those whose units may still start are kept, and dated by who holds their places now.
    #    Those for whom others gave way start.
    claims = ClaimBook(world, now, ends=ends, without=without)
    served = start_claimants(world, fitter=fitter, claims=claims, without=without)
    ends.add_all(fitter.admissions)
    preemptor = Preemptor(world, quota, policy=policy, now=now)
    openings, precedence = Openings(world, fitter), Precedence(world, fitter.query)
    kept = KeptQuota(world, now, fitter=fitter, claims=claims, precedence=precedence)
    fitter.keeper = kept
    reserver = Reserver(
        world,
        now,
        policy=policy,
        books=Books(fitter=fitter, claims=claims, ends=ends, precedence=precedence, kept=kept),
        openings=openings,
        preemptor=preemptor,
    )
    reserver.renew()
    # 3. Order: whose turn it is, and its best row. Nobody is tried for whom there is no quota, or no place.
    #    Whoever has waited too long has places kept for it first.
    fitter.find_misses(world.backlog.queues_of)
    reserver.guard()
    backfill = Backfill(world, now, fitter=fitter, claims=claims, ends=ends, precedence=precedence)
    heads = Heads(
        world,
        fitter,
        now=now,
        openings=openings,
        without=frozenset(without) | served.passed_over,
        onlooker=Onlookers(reserver.asked, backfill),
        # What is over counts for the turn alone, never for who gives way to whom.
        extra=world.past_use.averages(now),
    )
    # 4. Fit: quota, then places, taking them as it goes. For a blocked head others may give way, or places
    #    are kept.
    outcome = Outcome(finished=set(served.finished), holding=dict(served.holding))
    _fit_in_order(
        world, heads, fitter=fitter, backfill=backfill, reserver=reserver, kept=kept, outcome=outcome
    )
    heads.end()
    # 5. Grow: running groups get what nobody who waits could use.
    promised = Promised(world, quota, claims)
    grower = Grower(world, now, policy=policy, fitter=fitter, quota=quota, promised=promised, kept=kept)
    growth = grower.grow(
        without={*without, *outcome.finished}, leaving=preemptor.giving_way, awaited=preemptor.awaited
    )
    # 6. Explain: everyone who was left out.
    explainer = Explainer(world, now, quota=quota, fitter=fitter, promised=promised, kept=kept)
    clocks = GuardClocks(world, now, policy=policy, fitter=fitter, kept=kept)
    explained, noted = _explain(world, explainer, clocks, outcome)
    queues, numbers = with_growing(world, growth, shown=with_delays(world, preemptor.delays, shown=explained))
    return Plan(
        config_version=world.configuration.version,
        admissions=tuple(fitter.admissions),
        evictions=tuple(preemptor.evictions),
        claims_made=claims.made(),
        claims_ended=claims.ended(),
        wasted=claims.wasted(),
        resizes=(*preemptor.resizes, *growth.resizes),
        pauses_made=noted.made,
        pauses_dropped=noted.dropped,
        look_at=preemptor.delays.next_end,
        queues=queues,
        numbers=numbers,
    )


def _explain(
    world: World, explainer: Explainer, clocks: GuardClocks, outcome: Outcome
) -> tuple[tuple[dict[int, QueueVerdict], Numbers], Noted]:
    """What readers see of each queue, with the numbers that queues share; and whose guard clocks run."""
    # What was admitted still waits, for the World, until it is committed.
    finished, holding = outcome.finished, outcome.holding
    emptied = world.backlog.emptied_by(finished)
    explained = explainer.explain(
        blocked=outcome.blocked, holding=holding, finished=finished, emptied=emptied
    )
    return explained, clocks.note(holding, finished, emptied)


def _fit_in_order(
    world: World,
    heads: Heads,
    *,
    fitter: Fitter,
    backfill: Backfill,
    reserver: Reserver,
    kept: KeptQuota,
    outcome: Outcome,
) -> None:
    """A head that does not fit blocks its class, for its equals do not fit either, unless they may use what
    is kept for others and it may not. In a strict queue it blocks the queue, unless it could never fit. What
    is done for a blocked head is done at once: what it claims is not there for those behind it."""
    while head := heads.pop():
        queue_id, _ = head.class_id
        if queue_id in outcome.holding and outcome.holding[queue_id] < head.key:
            heads.close(queue_id)
            continue
        row = world.pending[head.key[4]]
        if fitter.limits.is_over(row):
            heads.push_next(head)
            continue
        fitted = backfill.fit(row, head)
        reserver.date_anew_behind(backfill.overtaken)
        backfill.overtaken.clear()
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
        has_preempted = reserver.reserve(row, lacks_places=row.id not in kept.stopped_rows)
        queue = world.configuration.queues[queue_id]
        if queue.order is Order.STRICT and world.could_fit(row):
            outcome.holding[queue_id] = head.key
            heads.close(queue_id)
        elif has_preempted:
            heads.push_next(head)
        else:
            _look_behind(row, head, heads=heads, backfill=backfill, reserver=reserver, kept=kept)


def _look_behind(
    row: PendingUnit, head: Head, *, heads: Heads, backfill: Backfill, reserver: Reserver, kept: KeptQuota
) -> None:
    """Equals of a blocked head do not fit either, but for those who may use what it may not: what is kept for
    others, what is borrowed, what others would have to give up. Places are kept for one after the other."""
    may_use_more = reserver.has_claim(row) or backfill.wants(head.class_id)
    is_wanted = may_use_more and reserver.asked.wants(head.class_id)
    may_use_more = may_use_more or (row.id in kept.stopped_rows and not kept.stops_class(head.class_id))
    if not may_use_more and row.is_preemptible and not row.has_never_run:
        return

    def may_use_more_than_it(other: PendingUnit) -> bool:
        may_use = backfill.may_use_any(other) or kept.may_let(other)
        return may_use or (is_wanted and not reserver.has_claim(other))

    heads.push_next_of(
        head,
        lambda other: (
            (other.is_preemptible and not row.is_preemptible)
            or (row.has_never_run and not other.has_never_run)
            or (may_use_more and may_use_more_than_it(other))
        ),
    )
