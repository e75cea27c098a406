"""One term of leadership: an epoch, one connection, and all that is known by them.

Whatever happens that is not expected ends the term: it is dropped as a whole, and the next one loads
in full and rebuilds the ledger (R3). So nothing here repairs anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import redis
from sqlalchemy import Connection

from service.admission.cycle import plan_cycle
from service.admission.packed_order import PackedOrder
from service.admission.plan import Admission, Plan, QueueVerdict, Resize
from service.admission.policy import Policy, policy_as_said
from service.admission.resident import World
from service.admission.world import Changes, Node
from service.inventory.glance import glance
from service.inventory.ledger import Ledger
from service.inventory.state import Answer, AttemptKey, DeviceKey, Reservation, Stamp
from service.inventory.verdicts import Publisher
from service.operations import rebuild
from service.operations.charge import ensure_half_life
from service.operations.commit import Committed, Outdated, commit_plan
from service.operations.load_world import Position, load_changes, load_world
from service.points import reach
from service.store.config import read_scheduling
from service.store.lease import Fence


class LedgerDisagrees(Exception):
    """The ledger is not the one that this term knows, or did not do as it was told (R2, R3)."""


class ReservationRefused(LedgerDisagrees):
    """The ledger answered Conflict to the places of `admissions`."""

    def __init__(self, admissions: Sequence[Admission]) -> None:
        super().__init__(f"the ledger refused {len(admissions)} reservations")
        self.admissions = tuple(admissions)


class Term:
    """Everything that a leader knows. Made at a takeover, right after the epoch was raised.

    Any exception from any method means that the term is over. Not thread-safe.
    """

    _stamp: Stamp
    _lost: frozenset[DeviceKey]
    #: Nodes, and what of them is lost.
    _looked_at: Mapping[int, Node] | None = None
    _lost_there: frozenset[DeviceKey] = frozenset()
    _has_moved: bool
    _policy: Policy
    _position: Position
    _publisher: Publisher

    def __init__(self, conn: Connection, client: redis.Redis, *, epoch: int, policy: Policy) -> None:
        self._conn = conn
        self._client = client
        self._ledger = Ledger(client)
        self._cycle = 0
        self._unsaid = policy
        #: From when on the last plan would be another one.
        self._look_at: datetime | None = None
        self.epoch = epoch
        # L3: the epoch in the ledger, a full load, and a ledger that says what PostgreSQL says. The
        # publisher is new, so the first cycle publishes every queue.
        self._ledger.raise_epoch(epoch)
        reach("worker.epoch-raised")
        self._ended: dict[AttemptKey, None] = {}
        self._dropped: list[Reservation] = []
        self._load()
        self._rebuild()

    @property
    def conn(self) -> Connection:
        """The connection that the term is bound to (W3)."""
        return self._conn

    @property
    def policy(self) -> Policy:
        """By which the next cycle decides, as far as is read."""
        return self._policy

    def read(self) -> None:
        """Bring the World up to date with what others committed (W1). Writes nothing, unless the cluster is
        to decide otherwise than before.

        Raises LedgerDisagrees if the ledger is not as this term left it: it was emptied, or restored.
        """
        stamp, published = glance(self._client)
        if stamp != self._stamp:
            raise LedgerDisagrees("the ledger is not as this leader left it")
        if not self._publisher.is_as_left(published):
            self._publisher.forget()
        changes, self._position = load_changes(self._conn, self._position)
        if self._policy == policy_as_said(self._unsaid, self._position.configuration.scheduling):
            self._apply(changes)
        else:
            # What is kept from cycle to cycle was found under the policy before.
            self._load()
            self._has_moved = True

    def plan(self, now: datetime, *, without: Collection[int] = frozenset()) -> Plan:
        """What the next cycle does, leaving out the waiting rows `without`. Its number grows within the
        epoch."""
        self._cycle += 1
        plan = plan_cycle(self.world, now, policy=self._policy, without=without)
        self._look_at = plan.look_at
        return plan

    def next_wake(self, now: datetime) -> datetime | None:
        """When waiting alone changes what may be admitted, or who gives way to whom."""
        instants = self.world.next_wake(now), self._look_at
        return min((each for each in instants if each is not None and each > now), default=None)

    def settle(self) -> bool:
        """Write to the ledger what PostgreSQL has decided: ended attempts give back their places (R5),
        devices are lost or found, nodes come and go. True if anything was written."""
        if self._has_moved:
            self._rebuild()
            return True
        lost = self._lost_now()
        if not self._ended and not self._dropped and lost == self._lost:
            return False
        if self._dropped:
            # Before their attempts end as a whole.
            self._drop_places(self._dropped)
            reach("worker.places-dropped")
            self._dropped.clear()
        if self._ended:
            self._release(list(self._ended))
            reach("worker.places-released")
            self._ended.clear()
        if lost != self._lost:
            self._mark(lost)
            reach("worker.devices-marked")
        return True

    def reserve(self, admissions: Sequence[Admission], resizes: Sequence[Resize] = ()) -> None:
        """Take the places of a plan in the ledger, each admission all or nothing (R1). Raises
        ReservationRefused with those that the ledger finds no room for."""
        wanted = [rebuild.wanted_by(admission) for admission in admissions]
        answers, self._stamp = self._ledger.reserve(self._stamp, wanted)
        if wanted:
            reach("worker.reserved")
        pairs = zip(admissions, answers, strict=True)
        if refused := [admission for admission, answer in pairs if answer is Answer.CONFLICT]:
            raise ReservationRefused(refused)
        _expect_done(answers)
        if added := self._added(resizes):
            answers, self._stamp = self._ledger.reserve(self._stamp, added)
            reach("worker.resizes-reserved")
            _expect_done(answers)

    def commit(self, plan: Plan, now: datetime) -> Committed | Outdated:
        """The cycle's transaction. What did not come to be gives back its places in the ledger."""
        shapes = self.world.shapes
        outcome = commit_plan(
            self._conn,
            plan,
            independent_groups={
                *(a.group_id for a in plan.admissions if not shapes[a.shape_id].is_gang),
                *self._independent_victims(plan),
            },
            fence=Fence(self.epoch, plan.config_version),
            now=now,
            cycle=self._cycle,
        )
        if isinstance(outcome, Committed):
            self.world.admit(outcome.won, now)
            for gone in outcome.evicted:
                self.world.give_way(gone.unit_id, gone.evicting_until, preempted_at=gone.preempted_at)
            self.world.resize(outcome.resized, now)
            still_waiting = {admission.from_unit_id for admission in outcome.lost}
            self.world.keep_claims(plan.claims_made, ended=plan.claims_ended - still_waiting)
            self.world.keep_pauses(plan.pauses_made, dropped=plan.pauses_dropped)
        return outcome

    def _independent_victims(self, plan: Plan) -> Iterable[int]:
        units = (self.world.running[eviction.unit_id] for eviction in plan.evictions)
        return (unit.group_id for unit in units if not self.world.shapes[unit.shape_id].is_gang)

    def give_back(self, admissions: Iterable[Admission], resizes: Sequence[Resize] = ()) -> None:
        """Release reservations that were not committed, once that is certain (L4)."""
        attempts = [(admission.unit_id, admission.attempt) for admission in admissions]
        if attempts:
            self._release(attempts)
            reach("worker.places-given-back")
        if added := self._added(resizes):
            self._drop_places(added)
            reach("worker.resizes-given-back")

    def publish(self, plan: Plan, now: datetime) -> bool:
        """Let readers see what the cycle decided (P1, P2); False if a newer cycle has published."""
        verdicts = {
            queue_id: plan.queues.get(queue_id)
            or QueueVerdict(queue_id=queue_id, order=PackedOrder(), verdicts=())
            for queue_id in self.world.configuration.queues
        }
        replaced = self._publisher.publish(
            verdicts, plan.numbers, epoch=self.epoch, cycle=self._cycle, at=now
        )
        if replaced:
            reach("worker.published")
        return replaced is not None

    def _apply(self, changes: Changes) -> None:
        before = self.world.configuration
        for freed in self.world.apply(changes):
            if freed.places is None:
                self._ended[freed.unit_id, freed.attempt] = None
            else:
                key, shape = (freed.unit_id, freed.attempt, 0), self.world.shapes[freed.shape_id]
                self._dropped.append(rebuild.named_places(key, freed.places, shape=shape))
        if changes.configuration is not None:
            self._has_moved |= not rebuild.has_same_places(before, changes.configuration)

    def _load(self) -> None:
        """A new World, with the policy that its own snapshot says."""
        with self._conn.begin():
            said = read_scheduling(self._conn)
        before, changes = None, Changes()
        while before != said:
            self._policy = policy_as_said(self._unsaid, said)
            half_life = self._policy.half_life_seconds
            if ensure_half_life(self._conn, half_life):
                reach("worker.half-life-changed")
            changes, self._position = load_world(self._conn, half_life_seconds=half_life)
            before, said = said, self._position.configuration.scheduling
        self._publisher = Publisher(self._client, guard_seconds=self._policy.guard_seconds)
        self.world = World.empty(half_life_seconds=self._policy.half_life_seconds)
        self.world.apply(changes)

    def _rebuild(self) -> None:
        """A new incarnation with the holds of the World's own snapshot; every queue is published (R4)."""
        running, shapes = self.world.running, self.world.shapes
        held = [rebuild.held_by(unit, shapes[unit.shape_id]) for unit in running.values()]
        state = rebuild.ledger_state(self.world.configuration, held)
        self._stamp = self._ledger.rebuild(self.epoch, state)
        reach("worker.ledger-switched")
        self._publisher.forget()
        self._lost = state.lost
        self._has_moved = False
        self._ended.clear()
        self._dropped.clear()

    def _release(self, attempts: list[AttemptKey]) -> None:
        answers, self._stamp = self._ledger.release(self._stamp, attempts)
        _expect_done(answers)

    def _drop_places(self, places: Sequence[Reservation]) -> None:
        answers, self._stamp = self._ledger.drop(self._stamp, places)
        _expect_done(answers)

    def _added(self, resizes: Iterable[Resize]) -> list[Reservation]:
        """What each revision adds (R1)."""
        running, shapes = self.world.running, self.world.shapes
        return [
            rebuild.named_places(
                (resize.unit_id, resize.attempt, resize.revision),
                resize.added,
                shape=shapes[running[resize.unit_id].shape_id],
            )
            for resize in resizes
            if resize.added
        ]

    def _lost_now(self) -> frozenset[DeviceKey]:
        """Looked up when nodes have changed, which is rare, and not each cycle."""
        configuration = self.world.configuration
        if self._looked_at is not configuration.nodes:
            self._looked_at = configuration.nodes
            self._lost_there = rebuild.lost_devices(configuration)
        return self._lost_there

    def _mark(self, lost: frozenset[DeviceKey]) -> None:
        answer, self._stamp = self._ledger.mark(self._stamp, lost=lost - self._lost, found=self._lost - lost)
        _expect_done([answer])
        self._lost = lost


def _expect_done(answers: Iterable[Answer]) -> None:
    refusals = [answer for answer in answers if answer is not Answer.DONE]
    if refusals:
        raise LedgerDisagrees(f"the ledger answered {refusals[0]}")
