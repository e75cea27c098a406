"""What a cycle decided besides admissions, counted for /metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from service.admission.plan import Plan
from service.domain.claim import Claim
from service.inventory.cycle_stats import EVICTED, REDATED, SHRUNK, claim_made, claim_wasted
from service.operations.commit import Committed


def count_decisions(plan: Plan, outcome: Committed, *, before: Mapping[int, Claim]) -> Counter[str]:
    """`before`: the claims that were kept when it was planned. With another cause a claim is made anew."""
    counts: Counter[str] = Counter()
    for claim in plan.claims_made:
        known = before.get(claim.unit_id)
        if known is None or known.cause is not claim.cause:
            counts[claim_made(claim.cause)] += 1
        elif claim.redated > known.redated:
            counts[REDATED] += claim.redated - known.redated
    counts.update(claim_wasted(cause) for cause in plan.wasted.values())
    counts[EVICTED] += len(outcome.evicted)
    counts[SHRUNK] += sum(resize.receipt is not None for resize in outcome.resized)
    return counts
