"""Rule 8: everybody who waits is told reasons, each of them true, with true numbers, and all that bind. What
a World holds is counted anew, and places are sought by trying everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf

from service.admission.claims.held_for import told_to
from service.admission.plan import Blocker, Plan
from service.admission.policy import DEFAULT
from service.admission.resident import World
from service.admission.waiting.eligibility import is_eligible
from service.admission.world import PendingUnit, Queue, RunningUnit
from service.domain.claim import Claim, ClaimCause
from service.domain.queue import Order, OrderBy, PreemptWithin, Stop
from service.domain.reasons import Code
from service.domain.resources import Resources
from service.domain.shape import RoleShape, Shape
from service.domain.wording import message
from simulation.replay.loop import Moment
from tests.builders import NOW
from tests.simulation.recount import Recount, idle, needs_of
from tests.unit.admission import oracle

_QUOTA = {Code.QUOTA_EXCEEDED, Code.BORROWING_LIMIT, Code.LENDING_LIMIT}
_SUMS = {
    Code.INSUFFICIENT_GPUS: "gpus",
    Code.INSUFFICIENT_CPU: "cpus",
    Code.INSUFFICIENT_MEMORY: "memory",
}
_SCATTERED = {Code.FRAGMENTED, Code.TOPOLOGY_UNSATISFIED}
_PLACES = {*_SUMS, *_SCATTERED, Code.NODES_UNAVAILABLE, Code.DEVICES_UNHEALTHY, Code.NO_MATCHING_FLAVOR}


#: So much later may be told, and no part of a second is.
_SLACK = timedelta(seconds=61)


class Truth:
    """Of what a plan told, after it has been carried out."""

    def __init__(self, world: World, moment: Moment) -> None:
        self._world = world
        self._now = moment.now
        self._plan: Plan = moment.plan
        self._count = Recount(world)
        self._idle = idle(world.configuration)
        #: How many rows of each group wait.
        self._rows = Counter(row.group_id for row in world.pending.values())
        #: How often each code was told, and found to be true.
        self.told: Counter[Code] = Counter()

    def check(self) -> Counter[Code]:
        listed: set[int] = set()
        for queue_id, verdict in self._plan.queues.items():
            queue = self._world.configuration.queues[queue_id]
            for entry in verdict.order:
                row = self._world.pending[entry.unit_id]
                listed.add(row.id)
                blockers = self._told(row, verdict.verdicts[entry.verdict])
                may_start = queue.stop is Stop.NONE and is_eligible(row, self._now)
                assert entry.is_eligible == may_start, self._name(row)
                self._check_row(row, queue, blockers)
                if may_start:
                    self._check_all_are_told(row, queue, blockers)
        assert listed == set(self._world.pending), "everybody who waits is listed"
        for claim in self._world.claims.values():
            if claim.cause is not ClaimCause.PREEMPTION:
                self._check_date(claim)
        return self.told

    def _told(self, row: PendingUnit, blockers: Sequence[Blocker]) -> list[Blocker]:
        """What a reader is shown."""
        ends_at = _ends_at(row, self._now)
        own = row.public_id if self._rows[row.group_id] == 1 else None
        told = (told_to(each, public_id=own, ends_at=ends_at) for each in blockers)
        return [each for each in told if each is not None]

    def _name(self, row: PendingUnit) -> str:
        return f"{row.public_id} of q{row.queue_id} at {self._now.isoformat()}"

    def _check_date(self, claim: Claim) -> None:
        """It is not before those have to be gone who sit there and may stay; none is told where one may stay
        for ever."""
        claimant = self._world.pending[claim.unit_id]
        devices = {(place.node_id, device) for place in claim.places for device in place.devices}
        ends = [
            unit.frees_at
            for unit in self._count.running
            if not self._gives_way_at_once(unit, claimant)
            and any((place.node_id, device) in devices for place in unit.places for device in place.devices)
        ]
        due_at, name = claim.due_at, self._name(claimant)
        assert due_at is None or due_at > self._now, name
        for end in ends:
            is_late = end is not None and end <= self._now
            assert due_at is None or is_late or (end is not None and end <= due_at), (
                f"{name}: {due_at}, {end}"
            )

    def _gives_way_at_once(self, unit: RunningUnit, claimant: PendingUnit) -> bool:
        policy = self._world.configuration.queues[claimant.queue_id].policy
        return (
            unit.queue_id == claimant.queue_id
            and unit.priority < claimant.priority
            and unit.is_preemptible
            and policy.preempt_within is PreemptWithin.LOWER_PRIORITY
        )

    # ------------------------------------------------------------------ all that binds
    def _check_all_are_told(self, row: PendingUnit, queue: Queue, blockers: Sequence[Blocker]) -> None:
        count, shape = self._count, self._count.least(row)
        codes = {blocker.code for blocker in blockers}
        is_never = not self._could_ever(shape, queue)
        assert (Code.NEVER_FITS in codes) == is_never, f"{self._name(row)}: {codes}"
        if is_never:
            return
        is_missed = not count.has_place(shape)
        assert bool(codes & _PLACES) == is_missed, f"{self._name(row)}: {codes}, {shape}"
        short = count.short_of(row)
        assert bool(codes & _QUOTA) == bool(short), f"{self._name(row)}: {codes}, short of {short}"
        has_other = count.is_over_own_limits(row) or (
            row.id in count.claims and count.claims[row.id].cause is ClaimCause.PREEMPTION
        )
        # A reader to whom nothing is told is told that no cycle has decided on it yet.
        is_next = count.has_place(
            shape, beside=[each for each in count.claims.values() if each.unit_id != row.id]
        )
        assert codes or has_other or is_next, f"{self._name(row)} waits for nothing"

    def _could_ever(self, shape: Shape, queue: Queue) -> bool:
        ceilings = {name: self._count.quota.ceiling(queue.id, name) for name in needs_of(shape)}
        is_within = all(
            need <= bound for name, need in needs_of(shape).items() if (bound := ceilings[name]) is not None
        )
        return is_within and oracle.can_place(shape, self._idle)

    # ------------------------------------------------------------------ each by itself
    def _check_row(self, row: PendingUnit, queue: Queue, blockers: Sequence[Blocker]) -> None:
        for blocker in blockers:
            have, limit = self._number(blocker.have_key), self._number(blocker.limit_key)
            told = message(
                blocker.code,
                need=blocker.need,
                have=have,
                limit=limit,
                scope=blocker.scope,
                holders=blocker.holders,
            )
            is_true = self._is_true(row, queue, blocker, have=have, limit=limit)
            assert is_true, f"{self._name(row)} is told {blocker.code}: {told}"
            self.told[blocker.code] += 1

    def _number(self, key: str | None) -> int | None:
        return None if key is None else self._plan.numbers[key]

    def _is_true(
        self, row: PendingUnit, queue: Queue, blocker: Blocker, *, have: int | None, limit: int | None
    ) -> bool:
        code = blocker.code
        if code is Code.QUEUE_STOPPED:
            return queue.stop is not Stop.NONE
        if code is Code.WAITING_FOR_TURN:
            return self._is_behind(row, queue, blocker)
        if code is Code.NEVER_FITS:
            return not self._could_ever(self._count.least(row), queue)
        if code is Code.HELD_FOR_CLAIM and blocker.scope.get("of") == "quota":
            return self._is_quota_kept(row, blocker, have=have)
        if code is Code.HELD_FOR_CLAIM:
            return self._are_places_kept(row, blocker)
        if code is Code.PREEMPTION_DELAYED:
            return self._is_protected(blocker)
        if code is Code.PENDING_EVALUATION:
            others = [each for each in self._count.claims.values() if each.unit_id != row.id]
            return self._count.has_place(self._count.least(row), beside=others)
        if code in _QUOTA:
            return self._is_beyond_quota(row, queue, blocker, have=have, limit=limit)
        if code in _SUMS or code in _SCATTERED:
            return self._is_short(row, blocker, have=have)
        if code in (Code.NODES_UNAVAILABLE, Code.DEVICES_UNHEALTHY):
            return self._is_unwell(row, blocker, have=have)
        if code is Code.NO_MATCHING_FLAVOR:
            roles = self._roles(row, blocker)
            return not any(self._count.nodes(roles, is_available=each) for each in (True, False))
        raise AssertionError(f"{code} is not known here")

    def _is_behind(self, row: PendingUnit, queue: Queue, blocker: Blocker) -> bool:
        """In a strict queue, of somebody who waits before it, and may and could start."""
        (holder,) = blocker.holders
        return queue.order is Order.STRICT and any(
            other.public_id == holder
            and other.queue_id == row.queue_id
            and _rank(other, queue) < _rank(row, queue)
            and is_eligible(other, self._now)
            and self._could_ever(self._count.least(other), queue)
            for other in self._world.pending.values()
        )

    def _is_beyond_quota(
        self, row: PendingUnit, queue: Queue, blocker: Blocker, *, have: int | None, limit: int | None
    ) -> bool:
        """By the definitions, from what everybody holds."""
        name = blocker.scope.get("flavor", blocker.scope["resource"])
        count, reference = self._count, self._count.quota
        left = reference.available(row.queue_id, name)
        if blocker.need != needs_of(count.least(row))[name] or left is None or blocker.need <= left:
            return False
        if blocker.code is Code.QUOTA_EXCEEDED:
            held = count.used.get(queue.id, {}).get(name, 0)
            bound = (queue.quota.limit or {}).get(name)
            own = reference.subtree(queue, name)
            return have == held and limit in (bound, own)
        return have == left and limit is not None

    def _is_short(self, row: PendingUnit, blocker: Blocker, *, have: int | None) -> bool:
        resource, roles = blocker.scope["resource"], self._roles(row, blocker)
        nodes = self._count.nodes(roles, is_available=True)
        if blocker.need != _sum(self._count.least(row), roles, resource) or have is None:
            return False
        if blocker.scope["nodes"] != str(len(nodes)):
            return False
        free = self._count.free(roles, resource, nodes)
        if blocker.code in _SUMS:
            return have == free < blocker.need
        if self._count.has_place(self._count.least(row)):
            return False
        if blocker.code is Code.FRAGMENTED:
            return have == free >= blocker.need
        domains: dict[object, int] = {}
        for node in nodes:
            domain = oracle.domain_of(node, self._world.configuration, blocker.scope["level"])
            domains[domain] = domains.get(domain, 0) + self._count.free(roles, resource, [node])
        return have == max(domains.values(), default=0)

    def _is_unwell(self, row: PendingUnit, blocker: Blocker, *, have: int | None) -> bool:
        if blocker.need is None:
            return not self._world.configuration.nodes
        roles, resource = self._roles(row, blocker), blocker.scope["resource"]
        if blocker.need != _sum(self._count.least(row), roles, resource):
            return False
        if blocker.code is Code.DEVICES_UNHEALTHY:
            nodes = self._count.nodes(roles, is_available=True)
            return have == self._count.unusable(roles, nodes) > 0
        down = self._count.nodes(roles, is_available=False)
        names = blocker.scope["unavailable"].split(" and ")[0].split(", ")
        is_named = names == [node.name for node in sorted(down, key=lambda node: node.id)][:3]
        return is_named and have == self._count.lying_idle(roles, resource, down) > 0

    def _is_protected(self, blocker: Blocker) -> bool:
        """Some rule keeps one of those who are named until then, and all of them run."""
        until = datetime.fromisoformat(blocker.scope["until"])
        units = [unit for unit in self._count.running if unit.public_id in blocker.holders]
        ends = [end for unit in units for end in self._protections(unit)]
        is_named = {unit.public_id for unit in units} == set(blocker.holders)
        return is_named and until > self._now and any(abs(until - end) <= _SLACK for end in ends)

    def _protections(self, unit: RunningUnit) -> Iterator[datetime]:
        """When rules begin to let it give way."""
        policy = self._world.configuration.queues[unit.queue_id].policy
        yield unit.admitted_at + timedelta(seconds=policy.min_runtime_seconds)
        yield from (at + timedelta(days=1) for at in unit.preempted_at)
        if unit.resized_at is not None:
            yield unit.resized_at + timedelta(seconds=DEFAULT.resize_interval_seconds)

    # ------------------------------------------------------------------ what is kept for others
    def _claims_of(self, row: PendingUnit, blocker: Blocker) -> list[Claim]:
        """Of those who are named, members of its own group among them; empty if one of them has none."""
        is_alone = self._rows[row.group_id] == 1
        every = self._count.claims.values()
        claims = [claim for claim in every if not is_alone or claim.unit_id != row.id]
        found = [each for each in claims if self._world.pending[each.unit_id].public_id in blocker.holders]
        names = {self._world.pending[each.unit_id].public_id for each in found}
        return found if names == set(blocker.holders) else []

    def _are_places_kept(self, row: PendingUnit, blocker: Blocker) -> bool:
        """It would find its places, but not beside all that is kept; those who are named keep it, and it
        would not surely be gone by then."""
        claims, shape = self._claims_of(row, blocker), self._count.least(row)
        everybody = list(self._count.claims.values())
        if self._rows[row.group_id] == 1:
            everybody = [claim for claim in everybody if claim.unit_id != row.id]
        return (
            bool(claims)
            and self._count.has_place(shape)
            and not self._count.has_place(shape, beside=everybody)
            and self._is_until(row, blocker, claims)
        )

    def _is_quota_kept(self, row: PendingUnit, blocker: Blocker, *, have: int | None) -> bool:
        claims = self._claims_of(row, blocker)
        name = blocker.scope.get("flavor", blocker.scope["resource"])
        need = needs_of(self._count.least(row))[name]
        return (
            bool(claims)
            and blocker.need == need
            and have is not None
            and have < need
            and self._is_until(row, blocker, claims)
        )

    def _is_until(self, row: PendingUnit, blocker: Blocker, claims: Sequence[Claim]) -> bool:
        """When one of them is due, the last if they are of several groups; not for who is gone by then."""
        dates = [claim.due_at for claim in claims if claim.due_at is not None]
        told = [at for at in dates if at.isoformat(timespec="seconds") == blocker.scope.get("until")]
        if "until" not in blocker.scope:
            return len(dates) < len(claims)
        ends_at, is_last = _ends_at(row, self._now), self._has_one_each(claims)
        is_until = bool(told) and (not is_last or told[-1] == max(dates))
        return is_until and (ends_at is None or ends_at > told[-1])

    def _has_one_each(self, claims: Sequence[Claim]) -> bool:
        return len({self._world.pending[each.unit_id].group_id for each in claims}) == len(claims)

    def _roles(self, row: PendingUnit, blocker: Blocker) -> list[RoleShape]:
        name = blocker.scope.get("role")
        return [role for role in self._count.least(row).roles if name in (None, role.name)]


def _ends_at(row: PendingUnit, now: datetime) -> datetime | None:
    """When it would surely be gone, if it were admitted now."""
    if row.time_limit_seconds is None:
        return None
    return now + timedelta(seconds=row.time_limit_seconds + row.grace_seconds)


def _rank(row: PendingUnit, queue: Queue) -> tuple[object, ...]:
    limit = row.time_limit_seconds
    length: float | timedelta = 0
    if queue.policy.order_by is OrderBy.SHORTEST:
        length = inf if limit is None else limit
    elif queue.policy.order_by is OrderBy.BALANCED:
        back = timedelta(days=30) if limit is None else min(timedelta(seconds=limit // 5), timedelta(days=30))
        length = row.submitted_at.replace(microsecond=0) + back - NOW
    return -row.priority, length, row.submitted_at, row.group_id, row.first_index


def _sum(shape: Shape, roles: Sequence[RoleShape], resource: str) -> int:
    total = Resources()
    for role in roles if shape.is_gang else ():
        total = total.plus(role.whole())
    total = total if shape.is_gang else shape.roles[0].requests
    amounts: Mapping[str, int] = {
        "gpus": total.gpus,
        "cpus": total.cpus_milli,
        "memory": total.memory_mib,
    }
    return amounts[resource]
