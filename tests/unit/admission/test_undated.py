"""Heads for which no claim could be dated: whoever holds what they need has no bound. That is remembered."""

from __future__ import annotations

from dataclasses import replace

from service.admission.cycle import plan_cycle
from service.admission.policy import Policy
from service.domain.claim import ClaimCause
from tests.builders import Group, Site, after, gang, loaded_afresh, node, queue, role, site

#: Every blocked head may have a dated claim.
ALL = Policy(reserve_depth=None)


def test_a_claim_that_loses_its_places_in_the_cycle_leaves_them_to_heads_that_had_none() -> None:
    # 1. Two GPUs are given back by a date, and both are claimed by the pair: for the single there is no date.
    made = site([node(1, gpus=3)], [queue(1)], _bounded(1), _bounded(2), gang(3))
    _cycle(made, 0)
    made.submit(gang(4, role(2)), gang(5, role(1, cpus=2)))
    _cycle(made, 1)
    _cycle(made, 2)
    assert _heads(made) == {4}
    # 2. One that goes before the pair takes one of them, so that the pair has none, and the single the other.
    made.submit(gang(6, role(1, cpus=2), priority=10))
    afresh = plan_cycle(loaded_afresh(made.world), after(3), policy=ALL)
    plan = plan_cycle(made.world, after(3), policy=ALL)
    assert (plan.claims_made, plan.claims_ended) == (afresh.claims_made, afresh.claims_ended)
    _cycle(made, 3)
    assert _heads(made) == {5, 6}


def _bounded(group_id: int) -> Group:
    made = gang(group_id)
    return Group(replace(made.row, time_limit_seconds=1000), made.shape)


def _cycle(made: Site, seconds: float) -> None:
    plan = plan_cycle(made.world, after(seconds), policy=ALL)
    made.world.admit(plan.admissions, after(seconds))
    made.world.keep_claims(plan.claims_made, ended=plan.claims_ended)


def _heads(made: Site) -> set[int]:
    """Groups with a dated claim."""
    claims = made.world.claims.values()
    assert all(claim.cause is ClaimCause.HEAD and claim.due_at is not None for claim in claims)
    return {made.world.pending[claim.unit_id].group_id for claim in claims}
