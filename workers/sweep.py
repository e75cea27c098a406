"""T1: what runs and is not in the books is closed before anything is launched, and looked for again later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from service.domain.lifecycle.launches import judge_launch_conflict
from service.operations.dispatch import PoolFence
from service.operations.observe import PassResult, commit_observations
from service.points import reach
from service.settings import Settings
from service.store.attempts import LiveAttempt
from service.store.work import load_attempts, load_keys
from workers.launchers.base import GenerationKey, Launcher
from workers.pool_nodes import PoolNodes
from workers.reconcile import Sightings, is_stopping, policy_of
from workers.strays import Seats, Strays, misplaced_of, strays_of

#: What ended long ago and is still there can be very much, and nobody waits for it to go.
_FORGOTTEN_AT_ONCE = 500

Misplaced = Sequence[tuple[LiveAttempt, Seats]]


class Swept(NamedTuple):
    """Whether anything was written, and the units of which a member has vanished."""

    has_written: bool = False
    short_units: frozenset[int] = frozenset()


class Sweep:
    """Compares all that the books hold with all that the launcher has: at the start of a lease, and as
    often as the dispatcher polls."""

    def __init__(self, fence: PoolFence, launcher: Launcher, *, nodes: PoolNodes, settings: Settings) -> None:
        self._fence = fence
        self._launcher = launcher
        self._nodes = nodes
        self._settings = settings
        self._next_at: datetime | None = None

    def run(self, sightings: Sightings, *, now: datetime) -> Swept:
        """T1, X5: close what is not in the books; what cannot be ended makes its devices lost until it
        is gone. Does nothing before it is due."""
        if self._next_at is not None and now < self._next_at:
            return Swept()
        is_first = self._next_at is None
        sightings.look(self._launcher.observe())
        misplaced = self._find_misplaced(sightings, now=now) if is_first else ()
        with self._fence.conn.begin():
            books = load_keys(self._fence.conn, self._fence.pool_id)
        strays = strays_of(books, sightings, node_ids=self._nodes.book.ids)
        if strays.ended:
            self._launcher.forget(strays.ended[:_FORGOTTEN_AT_ONCE])
            reach("dispatcher.strays-forgotten")
        has_changed = self._close(strays, misplaced, now=now)
        has_moved = self._move(misplaced, now)
        # Only what was carried through counts: nothing is launched in a lease before its first sweep.
        self._next_at = now + timedelta(seconds=self._settings.dispatcher_poll_seconds)
        return Swept(has_moved or has_changed, frozenset(strays.short_units))

    def _close(self, strays: Strays, misplaced: Misplaced, *, now: datetime) -> bool:
        """Also what made a device lost before: it may be gone by now. True if devices changed."""
        known = self._nodes.book.lost
        suspects = {GenerationKey(*holder) for holder in known.values()} | set(strays.alive)
        answers = self._launcher.close(sorted(suspects)) if suspects else ()
        if suspects:
            reach("dispatcher.strays-closed")
        gone = {answer.key for answer in answers if answer.is_closed}
        lost = {
            seat: (key.unit_id, key.attempt, key.generation)
            for key, seats in strays.alive.items()
            if key not in gone
            for seat in seats
        } | {seat: attempt.key for attempt, seats in misplaced for seat in seats}
        found = [seat for seat, holder in known.items() if GenerationKey(*holder) in gone]
        return self._nodes.settle_devices(lost=lost, found=found, now=now)

    def _find_misplaced(self, sightings: Sightings, *, now: datetime) -> Misplaced:
        """Only a database that was restored can differ so: it comes with a new lease."""
        live = load_attempts(self._fence.conn, self._fence.pool_id, now=now)
        return misplaced_of(live, sightings, node_ids=self._nodes.book.ids)

    def _move(self, misplaced: Misplaced, now: datetime) -> bool:
        """X7: what runs in other places than the books say gets its next attempt."""
        moved = [attempt for attempt, _ in misplaced if not is_stopping(attempt)]
        result = PassResult(node_names=self._nodes.book.names)
        for attempt in moved:
            policy = policy_of(attempt, self._settings)
            result.decided.append((attempt, judge_launch_conflict(policy, "seen by the launcher")))
        if not result:
            return False
        has_moved = bool(commit_observations(self._fence, result, now=now))
        reach("dispatcher.misplaced-moved")
        return has_moved
