"""Whose guard clocks run at the end of a cycle, and what is to be noted of it: a clock runs only while places
alone are missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from service.admission.claims.kept_quota import KeptQuota
from service.admission.fit import Fitter
from service.admission.pauses import (
    EVERYBODY,
    NOBODY,
    GuardPause,
    Halted,
    Pauses,
    next_pauses,
    without_old,
)
from service.admission.policy import Policy
from service.admission.quota.book import exceeded_models
from service.admission.quota.own_limits import exceeded
from service.admission.resident import World
from service.admission.state.memory import HaltedMemo, SettledMemo
from service.admission.waiting.eligibility import is_open
from service.admission.waiting.line import Key
from service.admission.waiting.terms import stored_shape_id
from service.admission.world import PendingUnit
from service.domain.queue import Order


class Noted(NamedTuple):
    """`made`: pauses that begin, and those that end; `dropped`: by queue and beginning, those that nobody
    waits for any more."""

    made: tuple[GuardPause, ...]
    dropped: frozenset[tuple[int, datetime]]


class GuardClocks:
    """Of one cycle, at its end: quota is as it leaves it."""

    def __init__(
        self, world: World, now: datetime, *, policy: Policy, fitter: Fitter, kept: KeptQuota
    ) -> None:
        self._world = world
        self._now = now
        self._guard_seconds = policy.guard_seconds
        self._fitter = fitter
        self._kept = kept
        self._holding: Mapping[int, Key] = {}
        self._finished: Collection[int] = ()
        self._emptied: Mapping[int, Collection[int]] = {}

    def note(
        self, holding: Mapping[int, Key], finished: Collection[int], emptied: Mapping[int, Collection[int]]
    ) -> Noted:
        """`holding`: in strict queues, the blocked head; `finished`: rows of which nothing waits any more;
        `emptied`: by queue, shapes of which nothing waits without them.
        Empty, if all stand still or run as before."""
        self._holding, self._finished, self._emptied = holding, finished, emptied
        backlog, pauses = self._world.backlog, self._world.pauses
        made: list[GuardPause] = []
        dropped: set[tuple[int, datetime]] = set()
        for queue_id in sorted(pauses.keys() - backlog.shapes_in.keys()):
            dropped.update((queue_id, pause.began_at) for pause in pauses[queue_id])
        for queue_id in backlog.shapes_in:
            before = pauses.get(queue_id, ())
            if self._is_settled(queue_id, before):
                continue
            after = self._next(queue_id, before)
            if after is not before:
                made.extend(pause for pause in after if pause not in before)
                begun = {pause.began_at for pause in after}
                dropped.update((queue_id, each.began_at) for each in before if each.began_at not in begun)
        made.sort(key=lambda pause: (pause.queue_id, pause.began_at))
        return Noted(tuple(made), frozenset(dropped))

    def _is_settled(self, queue_id: int, before: Pauses) -> bool:
        """Whether all is as it was when nothing had to be noted."""
        memory = self._world.memory
        known = memory.settled.get(queue_id)
        if known is None or queue_id in self._emptied or queue_id in self._world.backlog.bound:
            return False
        gate = memory.gates.of(queue_id)
        return (
            known.gate is gate
            and known.answers == gate.answers
            and known.pauses is before
            and known.infeasible == len(memory.infeasible.get(queue_id, ()))
            and known.kept == self._kept.stopped_classes(queue_id, gate)
        )

    def _note_settled(self, queue_id: int, before: Pauses, halted: Halted) -> None:
        """Of a queue where classes alone are asked, if all stand still whose last pause goes on, and nobody
        else: what has to be noted later may depend on the instant."""
        memory = self._world.memory
        is_by_class = not self._fitter.limits.is_limited(queue_id) and halted.moving is None
        goes_on = before[-1].halted if before and before[-1].ended_at is None else NOBODY
        if is_by_class and halted == goes_on and queue_id not in self._emptied:
            gate, infeasible = memory.gates.of(queue_id), len(memory.infeasible.get(queue_id, ()))
            kept = self._kept.stopped_classes(queue_id, gate)
            memory.settled[queue_id] = SettledMemo(gate, gate.answers, infeasible, kept, before)

    def _next(self, queue_id: int, before: Pauses) -> Pauses:
        if len(self._emptied.get(queue_id, ())) == len(self._world.backlog.shapes_in[queue_id]):
            # Nobody waits any more, as the next cycle sees.
            return before
        halted = self._halted(queue_id)
        self._note_settled(queue_id, before, halted)
        after = next_pauses(
            before,
            halted,
            queue_id=queue_id,
            now=self._now,
            guard_seconds=self._guard_seconds,
            is_waiting=self._is_waiting,
        )
        return after if after is before else without_old(after, self._world.backlog.oldest_in(queue_id))

    def _is_waiting(self, unit_id: int) -> bool:
        return unit_id in self._world.pending and unit_id not in self._finished

    def _halted(self, queue_id: int) -> Halted:
        queue = self._world.configuration.queues.get(queue_id)
        if queue is None or not is_open(queue):
            return EVERYBODY
        if queue.order is Order.STRICT:
            return Halted(moving=self._moving_of(queue_id))
        return self._halted_classes(queue_id)

    def _moving_of(self, queue_id: int) -> tuple[int, ...]:
        """Of a strict queue only the head lacks places alone, if it has quota."""
        head = self._holding.get(queue_id)
        if head is None:
            return ()
        row = self._world.pending[head[4]]
        return () if self._fitter.caps_of(row) is None else (row.id,)

    def _halted_classes(self, queue_id: int) -> Halted:
        memory = self._world.memory
        gate, infeasible = memory.gates.of(queue_id), memory.infeasible.get(queue_id, set[int]())
        emptied = frozenset(self._emptied.get(queue_id, ()))
        # The gate itself: one that was made anew counts from the beginning.
        kept = self._kept.stopped_classes(queue_id, gate)
        stamp = gate, gate.answers, len(infeasible), kept, None if emptied else self._stamp_of_rows(queue_id)
        known = memory.halted.get(queue_id)
        if known is not None and known.stamp == stamp and None not in stamp:
            return known.halted
        halting = gate.exceeded.keys() - gate.open
        halting |= infeasible & gate.exceeded.keys()
        halting |= kept
        halting -= emptied
        halted = Halted(
            tuple(sorted({stored_shape_id(shape_id) for shape_id in halting})),
            tuple(sorted(row.id for row in self._bound_rows(queue_id) if self._is_bound(row))),
        )
        last = self._world.pauses.get(queue_id, ())[-1:]
        if last and last[0].halted == halted:
            # One object, so that it costs nothing to see that it is the same.
            halted = last[0].halted
        memory.halted[queue_id] = HaltedMemo(stamp, halted)
        return halted

    def _stamp_of_rows(self, queue_id: int) -> tuple[int, ...] | None:
        """What single rows rest on; None while the cycle itself moves it."""
        world, backlog = self._world, self._world.backlog
        is_limited = self._fitter.limits.is_limited(queue_id)
        if not is_limited and queue_id not in backlog.bound:
            return ()
        if is_limited and self._fitter.limits.is_charged(queue_id):
            return None
        quota = world.quota.revision(queue_id) if queue_id in backlog.bound else 0
        return backlog.revisions[queue_id], world.own_use.revisions[queue_id], quota or 0

    def _bound_rows(self, queue_id: int) -> Iterator[PendingUnit]:
        """Rows to which something else than the quota of their class may say no."""
        backlog, rows = self._world.backlog, self._world.pending
        unit_ids: Iterable[int] = backlog.bound.get(queue_id, ())
        if self._fitter.limits.is_limited(queue_id):
            unit_ids = backlog.lines[queue_id].unit_ids
        return (rows[unit_id] for unit_id in unit_ids if unit_id not in self._finished)

    def _is_bound(self, row: PendingUnit) -> bool:
        """By what its owner or group may hold, or by nominal quota alone."""
        query, fitter = self._fitter.query(row.shape_id), self._fitter
        if fitter.limits.is_limited(row.queue_id) and exceeded(query, fitter.limits.rooms(row)):
            return True
        is_within = not row.is_preemptible and fitter.may_borrow(row.queue_id)
        if not is_within:
            return False
        return bool(exceeded_models(query, fitter.quota.caps(row.queue_id, query, is_within=True)))
