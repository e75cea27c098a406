"""The World after any changes is the World that a fresh load would make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from service.admission.cycle import plan_cycle
from service.admission.pauses import Pauses, clock_of
from service.admission.plan import Plan
from service.admission.policy import Policy
from service.admission.reservation.guard import find_expired
from service.admission.resident import World
from service.admission.waiting.eligibility import is_eligible, is_open
from service.admission.waiting.guard_line import waits_since
from service.admission.waiting.terms import stored_shape_id
from service.admission.world import Changes, Configuration, Freed, Node, PendingUnit, RunningUnit
from service.domain.claim import Claim
from service.domain.reasons import Code
from service.domain.shape import Shape
from tests.builders import (
    Site,
    after,
    configuration,
    gang,
    independent,
    loaded_afresh,
    node,
    queue,
    role,
    site,
    submitted,
)
from tests.unit.admission.strategies import configurations, groups, reconfigured

#: Short against the steps of time, so that guards run out.
POLICY = Policy(guard_seconds=12)


class AnyChanges(RuleBasedStateMachine):
    """What a store would hold is kept beside the World; both must agree at every moment."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World.empty()
        self.configuration: Configuration | None = None
        self.shapes: dict[int, Shape] = {}
        self.pending: dict[int, PendingUnit] = {}
        self.running: dict[int, RunningUnit] = {}
        self.claims: dict[int, Claim] = {}
        self.pauses: dict[int, Pauses] = {}
        self.groups = 0
        self.seconds = 0

    @initialize(config=configurations())
    def start(self, config: Configuration) -> None:
        self._apply(Changes(configuration=config))

    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        self.groups += 1
        self._apply(submitted(data.draw(groups(self.groups))))

    @rule(data=st.data())
    def reconfigure(self, data: st.DataObject) -> None:
        assert self.configuration is not None
        version = self.configuration.version + 1
        self._apply(Changes(configuration=data.draw(reconfigured(self.configuration, version))))

    @rule(seconds=st.integers(0, 10))
    def cycle(self, seconds: int) -> None:
        self.seconds += seconds
        now = after(self.seconds)
        plan = plan_cycle(self.world, now, policy=POLICY)
        assert plan == plan_cycle(self._fresh(), now, policy=POLICY)
        guard = POLICY.guard_seconds
        expired = list(find_expired(self.world, now, guard, may_any=lambda _: True, is_next=_anybody))
        assert expired == list(_expired(self.world, now))
        self.world.admit(plan.admissions, now)
        self.world.keep_claims(plan.claims_made, ended=plan.claims_ended)
        self.world.keep_pauses(plan.pauses_made, dropped=plan.pauses_dropped)
        self.claims |= {claim.unit_id: claim for claim in plan.claims_made}
        self.claims = {key: each for key, each in self.claims.items() if key not in plan.claims_ended}
        self.pauses = dict(self.world.pauses)
        for admission in plan.admissions:
            row = self.pending[admission.from_unit_id]
            if admission.unit_id == row.id:
                del self.pending[row.id]
            else:
                self.pending[row.id] = replace(row, first_index=admission.index + 1)
            self.running[admission.unit_id] = RunningUnit(
                id=admission.unit_id,
                group_id=admission.group_id,
                public_id=row.public_id,
                queue_id=admission.queue_id,
                shape_id=admission.shape_id,
                attempt=admission.attempt,
                revision=1,
                places=admission.places,
                usage=dict(admission.usage),
                admitted_at=now,
                priority=row.priority,
                submitted_at=row.submitted_at,
            )
        for row_id in {admission.from_unit_id for admission in plan.admissions} & self.pending.keys():
            row = self.pending[row_id]
            self.pending[row_id] = replace(row, version=row.version + 1)

    @rule(data=st.data(), is_requeue=st.booleans())
    def end(self, data: st.DataObject, is_requeue: bool) -> None:
        if not self.running:
            return
        unit = self.running[data.draw(st.sampled_from(sorted(self.running)))]
        again = PendingUnit(
            id=unit.id,
            group_id=unit.group_id,
            public_id=unit.public_id,
            queue_id=unit.queue_id,
            shape_id=unit.shape_id,
            priority=0,
            submitted_at=after(0),
            first_index=unit.id & 0xFFFFF,
            last_index=unit.id & 0xFFFFF,
            attempt=unit.attempt + 1,
            version=9,
            avoided_nodes=frozenset({unit.places[0].node_id}),
        )
        freed = self._apply(
            Changes(pending={unit.id: again}) if is_requeue else Changes(gone=frozenset({unit.id}))
        )
        assert [(each.unit_id, each.attempt) for each in freed] == [(unit.id, unit.attempt)]

    @rule(data=st.data(), is_held=st.booleans())
    def hold_or_cancel(self, data: st.DataObject, is_held: bool) -> None:
        if not self.pending:
            return
        row = self.pending[data.draw(st.sampled_from(sorted(self.pending)))]
        if is_held:
            held = replace(row, is_held=not row.is_held, version=row.version + 1)
            self._apply(Changes(pending={row.id: held}))
        else:
            self._apply(Changes(gone=frozenset({row.id})))

    @invariant()
    def the_world_is_what_a_fresh_load_makes(self) -> None:
        if self.configuration is not None:
            assert self.world.snapshot() == self._fresh().snapshot()

    def _apply(self, changes: Changes) -> tuple[Freed, ...]:
        """As the store would, and twice: the second time changes nothing (W2)."""
        self.configuration = changes.configuration or self.configuration
        self.shapes |= changes.shapes
        for unit_id in {*changes.gone, *changes.pending, *changes.running}:
            self.pending.pop(unit_id, None)
            self.running.pop(unit_id, None)
        self.pending |= changes.pending
        self.running |= changes.running
        freed = self.world.apply(changes)
        once = self.world.snapshot()
        assert self.world.apply(changes) == ()
        assert self.world.snapshot() == once
        return freed

    def _fresh(self) -> World:
        fresh = World.empty()
        fresh.apply(
            Changes(
                configuration=self.configuration,
                shapes=self.shapes,
                pending=self.pending,
                running=self.running,
                claims=self.claims,
                pauses=self.pauses,
            )
        )
        return fresh


def _anybody(row: PendingUnit) -> bool:
    return True


def _expired(world: World, now: datetime) -> Iterator[PendingUnit]:
    """Whose guard has run out, row by row: of each class the first, by when the first of it ran out."""
    guard, found = timedelta(seconds=POLICY.guard_seconds), []
    for (queue_id, _), keys in world.backlog.classes.items():
        if not is_open(world.configuration.queues.get(queue_id)):
            continue
        run_out = []
        for row in (world.pending[key[4]] for key in keys):
            shape_id, pauses = stored_shape_id(row.shape_id), world.pauses.get(queue_id, ())
            clock = clock_of(pauses, shape_id, row.id, since=waits_since(row), guard=guard)
            if is_eligible(row, now) and clock.runs_out_at is not None and clock.runs_out_at <= now:
                run_out.append((clock.runs_out_at, row))
        if run_out:
            found.append((min(at for at, _ in run_out), min(row.id for _, row in run_out), run_out[0][1]))
    return (row for _, _, row in sorted(found, key=lambda each: each[:2]))


# Shrinking a run of many steps takes minutes and helps little: the steps are printed.
AnyChanges.TestCase.settings = settings(
    max_examples=80, stateful_step_count=20, phases=(Phase.explicit, Phase.generate)
)
TestAnyChanges = AnyChanges.TestCase


def _running() -> Site:
    at = site([node(1)], [queue()], gang(1, role(2, 2)))
    at.cycle()
    return at


def test_an_end_frees_the_reservation_once() -> None:
    at = _running()
    (unit,) = at.world.running.values()
    (freed,) = at.world.apply(Changes(gone=frozenset({unit.id})))
    assert (freed.unit_id, freed.attempt) == (unit.id, 1)
    assert at.world.apply(Changes(gone=frozenset({unit.id}))) == ()


def test_another_attempt_frees_the_one_before() -> None:
    at = _running()
    (unit,) = at.world.running.values()
    (freed,) = at.world.apply(Changes(running={unit.id: replace(unit, attempt=2)}))
    assert freed.attempt == 1


def test_another_revision_of_one_attempt_frees_by_name_what_it_gave_up() -> None:
    at = _running()
    (unit,) = at.world.running.values()
    changes = Changes(running={unit.id: replace(unit, revision=2, places=unit.places[:1])})
    (freed,) = at.world.apply(changes)
    assert (freed.unit_id, freed.attempt, freed.places) == (unit.id, unit.attempt, unit.places[1:])
    assert at.world.apply(changes) == ()
    held = set(unit.places[0].devices)
    free, _, _ = at.world.snapshot().free[1]
    assert free == frozenset(range(8)) - held


def test_the_last_member_of_a_range_keeps_the_id_of_its_row() -> None:
    at = site([node(1, 2)], [queue()], independent(3, role(3, 1)))
    plan = at.cycle()
    base = 3 << 20
    assert [(a.unit_id, a.from_unit_id, a.version) for a in plan.admissions] == [
        (base, base + 2, 1),
        (base + 1, base + 2, 1),
    ]
    at.end(3)
    (last,) = at.cycle().admissions
    assert (last.unit_id, last.from_unit_id, last.version, last.index) == (base + 2, base + 2, 2, 2)
    assert not at.world.pending


def test_the_next_wake_is_the_next_end_of_a_backoff() -> None:
    at = site(
        [node(1)],
        [queue()],
        gang(1, backoff_until=after(30)),
        gang(2, backoff_until=after(10), is_held=True),
        gang(3, backoff_until=after(20)),
    )
    assert at.world.next_wake(after(0)) == after(20)
    assert at.world.next_wake(after(20)) == after(30)
    assert at.world.next_wake(after(30)) is None


def test_time_limits_run_from_the_admission() -> None:
    limited = gang(1)
    limited = replace(limited, row=replace(limited.row, time_limit_seconds=60))
    at = site([node(1)], [queue()], limited)
    at.cycle(5)
    (unit,) = at.world.running.values()
    assert unit.time_limit_at == after(65)


_TWO_RACKS = [node(number, 2, labels={"rack": f"r{number}"}) for number in (1, 2)]


def _blocked() -> Site:
    """One group runs in each rack; one that needs four GPUs in one rack waits."""
    at = site(
        _TWO_RACKS,
        [queue()],
        gang(1, role(1, 2)),
        gang(2, role(1, 2)),
        gang(3, role(2, 2), required="rack"),
        levels=("rack", "host"),
    )
    at.cycle()
    at.cycle()
    return at


def _configured(at: Site, *nodes: Node) -> Plan:
    config = configuration(
        nodes, [queue()], levels=("rack", "host"), version=at.world.configuration.version + 1
    )
    at.world.apply(Changes(configuration=config))
    plan = plan_cycle(at.world, after(1))
    fresh = loaded_afresh(at.world)
    assert at.world == fresh
    assert plan == plan_cycle(fresh, after(1))
    return plan


def test_a_node_in_another_state_leaves_what_was_found_out() -> None:
    at = _blocked()
    capacity, feasibility, quota = at.world.capacity, at.world.feasibility, at.world.quota
    before = plan_cycle(at.world, after(1)).queues[1]
    assert _configured(at, *_TWO_RACKS).queues[1] is before
    _configured(at, replace(_TWO_RACKS[0], is_ready=False), _TWO_RACKS[1])
    assert (at.world.capacity, at.world.feasibility, at.world.quota) == (capacity, feasibility, quota)


def test_nodes_that_come_go_and_move_are_followed() -> None:
    at = _blocked()
    capacity = at.world.capacity
    # Both racks become one: what could never fit waits for room.
    (verdict,) = (
        _configured(at, _TWO_RACKS[0], replace(_TWO_RACKS[1], labels={"host": "n2", "rack": "r1"}))
        .queues[1]
        .verdicts
    )
    assert [blocker.code for blocker in verdict] == [Code.INSUFFICIENT_GPUS]
    # Two machines come, and there is a place.
    new = [node(number, 2, labels={"rack": "r3"}) for number in (3, 4)]
    plan = _configured(at, *_TWO_RACKS, *new)
    assert {place.node_id for place in plan.admissions[0].places} == {3, 4}
    # One of them goes again, and with it what runs there is no longer free when it ends.
    assert _configured(at, *_TWO_RACKS, new[0]).admissions == ()
    assert at.world.capacity is capacity


def test_a_node_that_comes_back_holds_what_runs_there() -> None:
    at = _blocked()
    _configured(at, _TWO_RACKS[0])
    _configured(at, *_TWO_RACKS)
    assert at.world.snapshot().free[2][0] == frozenset()


def test_a_model_that_nobody_knew_is_there_for_who_takes_any() -> None:
    at = site([node(1, 1)], [queue()], gang(1, role(1, 2)), levels=("rack", "host"))
    assert not at.cycle().admissions
    (admission,) = _configured(at, node(1, 1), node(2, 2, model="my")).admissions
    assert admission.places[0].node_id == 2


def test_numbers_of_nodes_run_out_and_are_given_anew() -> None:
    at = site([node(1, 1), node(2, 1)], [queue()], gang(1, role(30, 1)), levels=("rack", "host"))
    machines = [node(1, 1, labels={"rack": "r"}), node(100, 1, labels={"rack": "r"})]
    for number in range(99, 70, -1):
        machines.append(node(number, 1, labels={"rack": "r"}))
        _configured(at, *machines)
    assert len(at.world.capacity.nodes) == 31
