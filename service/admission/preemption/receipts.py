"""What is told of those who give way to a claimant: by what right, and what both queues hold then."""

from __future__ import annotations

from service.admission.plan import Receipt, Shares
from service.admission.preemption.cheapest import Found
from service.admission.preemption.trial import Candidate
from service.admission.quota.entitlement import Claimant
from service.admission.quota.tree import QuotaTree
from service.domain.preemption import Entitlement

#: A unit that gives up members by several rights is told the one that reaches furthest.
_REACH = {right: reach for reach, right in enumerate(Entitlement)}


def receipts_of(claimant: Claimant, found: Found, tree: QuotaTree) -> dict[int, Receipt]:
    """One for each unit that gives way, whole or with surplus members. Shares are those before anybody
    goes, and when all have gone and the claimant is there; `tree` is left as it was."""
    parts: dict[int, list[Candidate]] = {}
    for candidate in found.victims:
        parts.setdefault((candidate.of or candidate.unit).id, []).append(candidate)
    queue_id = claimant.row.queue_id
    sources = {unit_id: of_unit[0].unit.queue_id for unit_id, of_unit in parts.items()}
    before = {source: tree.shares(queue_id, source) for source in sources.values()}
    after = _shares_after(claimant, found, tree)
    return {
        unit_id: Receipt(
            claimant_id=claimant.row.id,
            entitlement=max((found.rights[each.unit.id] for each in of_unit), key=_REACH.__getitem__),
            before=before[sources[unit_id]],
            after=after[sources[unit_id]],
            lost_gpu_seconds=sum(each.cost for each in of_unit) / 1000,
        )
        for unit_id, of_unit in parts.items()
    }


def _shares_after(claimant: Claimant, found: Found, tree: QuotaTree) -> dict[int, Shares]:
    """By queue that gives."""
    queue_id, units = claimant.row.queue_id, [candidate.unit for candidate in found.victims]
    for unit in units:
        tree.refund(unit.queue_id, unit.usage)
    tree.charge(queue_id, claimant.usage)
    after = {source: tree.shares(queue_id, source) for source in {unit.queue_id for unit in units}}
    tree.refund(queue_id, claimant.usage)
    for unit in units:
        tree.charge(unit.queue_id, unit.usage)
    return after
