"""What the leader keeps between cycles, and how what starts and ends is booked in all of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from service.admission.elastic.surplus import part_of
from service.admission.held.holders import Holders
from service.admission.held.holds import taken_by
from service.admission.held.priorities import Priorities
from service.admission.nodes.capacity import Capacity
from service.admission.past_use import PastUse
from service.admission.pauses import Pauses
from service.admission.quota.own_use import OwnUse
from service.admission.quota.tree import QuotaTree, Usage
from service.admission.state.feasible import Feasibility
from service.admission.state.kept import is_entitled
from service.admission.state.kept_claims import KeptClaims
from service.admission.state.memory import Memory
from service.admission.waiting.backlog import Backlog
from service.admission.waiting.fallback import Fallbacks
from service.admission.waiting.guard_line import Guards
from service.admission.waiting.terms import TermsOf, whole_id
from service.admission.world import Configuration, PendingUnit, RunningUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.shape import Shape


class Booked:
    """Rows that wait, units that run with what they hold, and claims."""

    def __init__(self, *, half_life_seconds: float = 0.0) -> None:
        self.past_use = PastUse(half_life_seconds)
        self.configuration = Configuration(version=0, queues={}, pools={}, nodes={})
        self.shapes: dict[int, Shape] = {}
        self.backlog = Backlog()
        self.running: dict[int, RunningUnit] = {}
        self.own_use = OwnUse(self.configuration, ())
        #: The same by queue, and those that are Evicting.
        self.running_in: dict[int, dict[int, RunningUnit]] = {}
        self.leaving: dict[int, RunningUnit] = {}
        self.priorities = Priorities()
        #: Units that may grow or shrink now.
        self.resizable: dict[int, RunningUnit] = {}
        #: By the row that waits. Only a full load and the leader's own commits change them.
        self.claims: dict[int, Claim] = {}
        #: When guards stood still, by queue. The same of them.
        self.pauses: dict[int, Pauses] = {}
        self.guards = Guards()
        self.used: Usage = {}
        self.quota = QuotaTree(self.configuration, {})
        self.holders = Holders()
        #: Counts the changes of claims, and of what is kept for them.
        self.claims_revision = 0
        self.capacity = Capacity(self.configuration)
        self.feasibility = Feasibility(self.configuration)
        self.memory = Memory()
        self._kept_claims = KeptClaims()
        self._fallbacks = Fallbacks()
        self._terms: TermsOf = {}
        #: Since when shapes were looked up last, their numbers may stand for other terms.
        self._has_new_terms = False

    @property
    def pending(self) -> Mapping[int, PendingUnit]:
        return self.backlog.rows

    def could_fit(self, row: PendingUnit) -> bool:
        """Whether one unit of the row could ever be admitted, if nothing else were there."""
        shape_id = whole_id(row.shape_id)
        return self.feasibility.fits(
            shape_id,
            self.shapes[shape_id],
            self.quota,
            row.queue_id,
            is_within=not row.is_preemptible,
        )

    def _start(self, unit: RunningUnit) -> None:
        self.running[unit.id] = unit
        self.running_in.setdefault(unit.queue_id, {})[unit.id] = unit
        self.priorities.add(unit)
        if unit.evicting_until is not None:
            self.leaving[unit.id] = unit
        elif unit.dropping:
            self.leaving[unit.id] = self._leaving_part(unit)
        if unit.is_resizable:
            self.resizable[unit.id] = unit
        used = self.used.setdefault(unit.queue_id, {})
        for resource, amount in unit.usage.items():
            used[resource] = used.get(resource, 0) + amount
        self.quota.charge(unit.queue_id, unit.usage)
        self.own_use.start(unit)
        self.holders.add(unit, taken_by(unit.places, self.shapes[unit.shape_id]))
        self._hold(unit)

    def _leaving_part(self, unit: RunningUnit) -> RunningUnit:
        """What an elastic unit is giving up."""
        gone = [place for place in unit.places if place.member in unit.dropping]
        shape, nodes = self.shapes[unit.shape_id], self.configuration.nodes
        return replace(part_of(unit, gone, shape=shape, nodes=nodes), evicting_until=unit.dropping_until)

    def _hold(self, unit: RunningUnit) -> None:
        for taken in self.holders.taken[unit.id]:
            self.capacity.hold(taken)

    def _end(self, unit: RunningUnit) -> None:
        del self.running[unit.id]
        del self.running_in[unit.queue_id][unit.id]
        self.priorities.remove(unit)
        self.leaving.pop(unit.id, None)
        self.resizable.pop(unit.id, None)
        used = self.used[unit.queue_id]
        for resource, amount in unit.usage.items():
            used[resource] -= amount
        self.quota.refund(unit.queue_id, unit.usage)
        self.own_use.end(unit)
        for taken in self.holders.taken[unit.id]:
            self.capacity.release(taken)
        self.holders.remove(unit)

    def _replace_rows(self, removed: Collection[int], added: Mapping[int, PendingUnit]) -> None:
        self._fallbacks.remove((*removed, *added))
        self._fallbacks.add(added.values(), self.shapes)
        self.backlog.replace(removed, added)

    def _settle_claims(self) -> None:
        """Keep what is free of the places of claims, older claims first, while their units are entitled."""
        if not self.claims and not self.capacity.kept:
            return
        entitled: list[tuple[Claim, Shape]] = []
        for claim in sorted(self.claims.values(), key=lambda claim: (claim.made_at, claim.unit_id)):
            row = self.pending.get(claim.unit_id)
            queue = None if row is None else self.configuration.queues.get(row.queue_id)
            if row is None or claim.cause is ClaimCause.PREEMPTION or not is_entitled(claim, row, queue):
                continue
            entitled.append((claim, self.shapes[row.shape_id]))
        kept = self._kept_claims.find(
            entitled, configuration=self.configuration, nodes=self.capacity.nodes, holders=self.holders
        )
        if kept != self.capacity.kept:
            self.claims_revision += 1
            self.capacity.keep(kept)
