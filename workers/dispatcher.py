"""The dispatcher of one pool: launches what is admitted, watches it, stops and closes what ends.

It keeps nothing that it could not read again: PostgreSQL says what should be, the launcher what is.
A pass compares the two until there is nothing left to do at this instant.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

import structlog
from psycopg.errors import DeadlockDetected
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from service.clock import Clock
from service.domain.lifecycle.launches import judge_launch_conflict
from service.operations.deadlines import evict_drained
from service.operations.dispatch import claim_attempts
from service.operations.observe import PassResult, Recorded, commit_observations
from service.operations.pool_state import (
    NodeBook,
    commit_nodes,
    commit_reachability,
    find_devices,
    load_node_book,
    lose_devices,
)
from service.operations.secret_box import SecretBox, open_box
from service.points import reach
from service.settings import Settings
from service.store.attempts import WAITING, LiveAttempt
from service.store.dispatcher_lease import LeaseLost
from service.store.work import find_due, load_attempts, load_keys, load_work
from workers.judge import Judge, Stops
from workers.launchers.base import (
    GenerationKey,
    Launcher,
    LauncherUnreachable,
    MemberKey,
    NodeReport,
)
from workers.launching import Handed, Pace, hand_over
from workers.pool_lease import PoolLease
from workers.reconcile import Sightings, has_ended, is_stopping, policy_of, reported_node
from workers.sweep import Seats, misplaced_of, strays_of

_log = structlog.get_logger(__name__)

#: A pass that has still not come to rest then goes on in the next one, so that under steady load each
#: pass ends, and its lease is kept by one that moves.
_MOST_ROUNDS = 200
_LONGEST_PASS = timedelta(seconds=2)
#: What ended long ago and is still there can be very much, and nobody waits for it to go.
_FORGOTTEN_AT_ONCE = 500
_AT_ONCE = datetime.min.replace(tzinfo=UTC)


class Done(NamedTuple):
    """Of one round: whether anything was done, and whether there may be more to do at this instant that
    nobody will ring for."""

    is_any: bool
    has_more: bool


class Dispatcher:
    """Serves the pool `pool_name` through `launcher` while it holds the pool's lease. Not thread-safe.

    `ring_leader` is called after each commit that freed places or changed what may be placed; it must
    not raise. Errors of PostgreSQL come out of `pass_once` and leave nothing half done: the next pass
    takes the lease anew.
    """

    def __init__(
        self,
        engine: Engine,
        launcher: Launcher,
        *,
        pool_name: str,
        clock: Clock,
        settings: Settings,
        ring_leader: Callable[[], None],
        holder: str | None = None,
    ) -> None:
        self._launcher = launcher
        self._pool_name = pool_name
        self._clock = clock
        self._settings = settings
        self._ring_leader = ring_leader
        self._pace = Pace()
        self._lease = PoolLease(
            engine,
            pool_name,
            clock=clock,
            settings=settings,
            launcher=launcher.capabilities().kind,
            holder=holder or f"{socket.gethostname()}:{os.getpid()}",
        )
        self._forget_all()

    # ------------------------------------------------------------ for its process and for tests
    @property
    def pool_id(self) -> int | None:
        """The pool's id, while this dispatcher holds its lease. From any thread."""
        return self._lease.pool_id

    @property
    def epoch(self) -> int | None:
        """The epoch of the lease that it holds, None if it holds none."""
        return self._lease.epoch

    @property
    def is_at_rest(self) -> bool:
        """The last pass found nothing more to do at its instant."""
        return self._is_at_rest

    def pass_once(self) -> bool:
        """Launch, watch, stop, close and release until nothing is left to do at this instant, or the
        pass has taken long: then `next_due_at` is at once.

        True if anything was done. Without the lease nothing is.
        """
        has_done = False
        self._is_at_rest = False
        ends_at = self._clock.now() + _LONGEST_PASS
        try:
            if not self._hold_lease():
                return False
            self._has_inventory = False
            for _ in range(_MOST_ROUNDS):
                done = self._try_round()
                has_done |= done.is_any
                self._is_at_rest = not done.has_more
                if self._is_at_rest or self._clock.now() >= ends_at:
                    break
        except LeaseLost:
            _log.warning("stale_refused", by="store", pool=self._pool_name)
            self.close()
        except Exception:
            self.close()
            raise
        return has_done

    def next_due_at(self) -> datetime | None:
        """When something falls due that nobody will ring for, None if nothing will. It may be over
        already: what fell due during the pass was not looked at in it."""
        if not self._lease.is_held:
            return None
        if not self._is_at_rest:
            return self._clock.now()
        due = find_due(
            self._lease.fence.conn,
            self._lease.fence.pool_id,
            now=self._looked_at or self._clock.now(),
            patience_seconds=self._settings.kill_patience_seconds,
        )
        if due.drain_at is not None:
            self._look_for_drains_at(due.drain_at)
        return due.at

    def live_generations(self) -> set[tuple[int, int, int]]:
        """What the launcher said last: (unit, attempt, generation) of every live member, for the audit."""
        return {
            (key.unit_id, key.attempt, key.generation)
            for key, members in self._sightings.by_generation().items()
            if not all(has_ended(member) for member in members)
        }

    def renew(self) -> None:
        """Keep the lease while a pass takes long: for another thread, on a connection of its own."""
        self._lease.renew_apart()

    def close(self) -> None:
        """Give up the connection, and with it the lease. Members live on."""
        self._lease.drop()

    def _hold_lease(self) -> bool:
        """Take the lease if it is free, or keep it. All that is remembered belongs to one lease."""
        epoch = self._lease.epoch
        if not self._lease.hold():
            return False
        if self._lease.epoch != epoch:
            self._forget_all()
            self._book = load_node_book(self._lease.fence)
        return True

    def _forget_all(self) -> None:
        self._book = NodeBook()
        self._sightings = Sightings()
        self._reports: Sequence[NodeReport] | None = None
        self._has_inventory = False
        self._told: set[MemberKey] = set()
        self._unclosed_units: set[int] = set()
        self._is_at_rest = False
        self._looked_at: datetime | None = None
        self._drains_at = _AT_ONCE
        self._sweep_at: datetime | None = None

    @cached_property
    def _box(self) -> SecretBox:
        return open_box(key=self._settings.secret_key, data=self._settings.data)

    # ------------------------------------------------------------ one round
    def _try_round(self) -> Done:
        try:
            return self._round(self._clock.now())
        except LauncherUnreachable as error:
            return self._round_without_launcher(self._clock.now(), error)
        except DeadlockDetected:
            return Done(is_any=True, has_more=True)
        except OperationalError as error:
            if isinstance(error.orig, DeadlockDetected):
                return Done(is_any=True, has_more=True)
            raise

    def _round(self, now: datetime) -> Done:
        """1. Nodes. 2. Strays. 3. Look and read. 4. Launch. 5. Judge. 6. Stop and close. 7. Record.
        8. Drains."""
        self._lease.keep(now)
        has_changed = not self._has_inventory and self._register(now)
        self._has_inventory = True
        # T1: what the books do not hold is closed before anything is launched.
        has_swept, short_units = self._sweep(now)
        self._sightings.look(self._launcher.observe())
        changed = self._sightings.changed_units | short_units | self._unclosed_units
        handed, attempts = self._launch(self._load(now, changed=changed), now)
        if handed:
            # To launch takes time: nothing ran before it was launched.
            now = self._clock.now()
            self._sightings.look(self._launcher.observe())
        judge = self._judge(now, handed, short_units=short_units)
        stops = judge.look_at(attempts)
        has_told = self._stop(stops, now)
        self._close(judge, stops)
        recorded = self._record(judge.result, now)
        has_news = self._sightings.settle(
            changed | {attempt.unit_id for attempt in attempts}, but_not=recorded.outdated
        )
        has_drained = self._evict_drained(now)
        return Done(
            is_any=bool(has_changed or has_swept or handed or judge.result or has_drained),
            has_more=has_changed or has_swept or handed.has_more or has_told or has_news or has_drained
            or stops.is_killing or recorded.has_followers,
        )  # fmt: skip

    def _round_without_launcher(self, now: datetime, error: LauncherUnreachable) -> Done:
        """Nothing is concluded about members. What never went to the launcher can still end (X1)."""
        if not self._book.is_unreachable:
            _log.warning("launcher_unreachable", pool=self._pool_name, error=str(error))
        has_changed = self._set_reachable(is_reachable=False, now=now)
        self._sightings.look(())
        judge = self._judge(now, Handed(), short_units=())
        waiting = [one for one in self._load(now, changed=()) if one.dispatch == WAITING]
        judge.look_at(waiting)
        recorded = self._record(judge.result, now)
        self._sightings = Sightings()
        is_any = has_changed or bool(judge.result)
        return Done(is_any=is_any, has_more=has_changed or recorded.has_followers)

    def _judge(self, now: datetime, handed: Handed, *, short_units: Collection[int]) -> Judge:
        return Judge(
            fence=self._lease.fence,
            book=self._book,
            box=self._box,
            settings=self._settings,
            sightings=self._sightings,
            handed=handed,
            short_units=short_units,
            now=now,
        )

    def _load(self, now: datetime, *, changed: Collection[int]) -> list[LiveAttempt]:
        self._looked_at = now
        return load_work(
            self._lease.fence.conn,
            self._lease.fence.pool_id,
            now=now,
            changed=changed,
            # Where something cannot be started, all that waits is looked at: what can be may come later.
            most_waiting=None if self._book.faults else self._pace.most,
        )

    def _launch(self, attempts: list[LiveAttempt], now: datetime) -> tuple[Handed, list[LiveAttempt]]:
        """Hand over what can be started; and these attempts, as they are after that."""
        startable = [attempt for attempt in attempts if self._book.faults.is_startable(attempt)]
        if not startable:
            return Handed(), attempts
        claimed = claim_attempts(self._lease.fence, startable[: self._pace.most], now=now)
        reach("dispatcher.attempts-claimed")
        with self._pace.of(len(claimed)):
            handed = hand_over(
                self._launcher, claimed, box=self._box, node_names=self._book.names, settings=self._settings
            )
        reach("dispatcher.members-launched")
        handed.has_more = len(startable) >= self._pace.most
        taken = {one.attempt.unit_id: one.attempt for one in claimed}
        return handed, [taken.get(attempt.unit_id, attempt) for attempt in attempts]

    def _stop(self, stops: Stops, now: datetime) -> bool:
        """SIGTERM, once for each member; the grace that was promised goes on over a restart."""
        has_told = False
        for grace_seconds, members in stops.tell_by_grace(now).items():
            new = [member for member in members if member not in self._told]
            if new:
                self._launcher.terminate(new, grace_seconds=grace_seconds)
                reach("dispatcher.members-told")
                self._told.update(new)
                has_told = True
        return has_told

    def _close(self, judge: Judge, stops: Stops) -> None:
        if stops.close:
            answers = self._launcher.close(list(stops.close))
            reach("dispatcher.generations-closed")
            if stops.is_killing:
                # How its members ended is known before the attempt is.
                closing = {key.unit_id for key in stops.close}
                self._sightings.look_again(self._launcher.observe(), unit_ids=closing)
            judge.conclude(answers, stops)
        self._unclosed_units = judge.unclosed_units

    def _record(self, result: PassResult, now: datetime) -> Recorded:
        if not result:
            return Recorded()
        recorded = commit_observations(self._lease.fence, result, now=now)
        reach("dispatcher.pass-recorded")
        if recorded.has_lost_devices:
            self._book = load_node_book(self._lease.fence)
        if recorded.released or recorded.has_lost_devices:
            self._ring_leader()
        if recorded.handed_over:
            done = {GenerationKey(*key) for key in recorded.handed_over}
            self._told = {member for member in self._told if member.of not in done}
            self._launcher.forget(sorted(done))
            reach("dispatcher.generations-forgotten")
        return recorded

    def _look_for_drains_at(self, instant: datetime) -> None:
        self._drains_at = min(self._drains_at, instant)

    def _evict_drained(self, now: datetime) -> bool:
        """When a drain is known to be due, and besides as often as strays are looked for."""
        if now < self._drains_at:
            return False
        self._drains_at = now + timedelta(seconds=self._settings.dispatcher_poll_seconds)
        has_evicted = bool(evict_drained(self._lease.fence, now=now).unit_ids)
        if has_evicted:
            reach("dispatcher.drained-evicted")
        return has_evicted

    # ------------------------------------------------------------ nodes
    def _register(self, now: datetime) -> bool:
        reports = list(self._launcher.inventory())
        has_written = self._set_reachable(is_reachable=True, now=now)
        if reports == self._reports:
            return has_written
        registered = commit_nodes(self._lease.fence, [reported_node(report) for report in reports], now=now)
        reach("dispatcher.nodes-registered")
        if registered.refused:
            _log.error("nodes_of_another_pool", pool=self._pool_name, nodes=registered.refused)
        self._reports = reports
        if registered.has_changed:
            self._changed_nodes()
        return has_written or registered.has_changed

    def _set_reachable(self, *, is_reachable: bool, now: datetime) -> bool:
        if self._book.is_unreachable != is_reachable:
            return False
        commit_reachability(self._lease.fence, is_reachable=is_reachable, now=now)
        reach("dispatcher.reachability-recorded")
        self._book = replace(self._book, is_unreachable=not is_reachable)
        return True

    def _changed_nodes(self) -> None:
        self._book = load_node_book(self._lease.fence)
        self._ring_leader()

    def _sweep(self, now: datetime) -> tuple[bool, set[int]]:
        """T1, X5: close what is not in the books; what cannot be ended makes its devices lost until it
        is gone. Gives whether anything was written, and the units of which a member has vanished."""
        if self._sweep_at is not None and now < self._sweep_at:
            return False, set()
        is_first = self._sweep_at is None
        self._sightings.look(self._launcher.observe())
        misplaced = self._find_misplaced(now) if is_first else []
        with self._lease.fence.conn.begin():
            books = load_keys(self._lease.fence.conn, self._lease.fence.pool_id)
        strays = strays_of(books, self._sightings, node_ids=self._book.ids)
        if strays.ended:
            self._launcher.forget(strays.ended[:_FORGOTTEN_AT_ONCE])
            reach("dispatcher.strays-forgotten")
        suspects = {GenerationKey(*holder) for holder in self._book.lost.values()} | set(strays.alive)
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
        found = [seat for seat, holder in self._book.lost.items() if GenerationKey(*holder) in gone]
        has_found = find_devices(self._lease.fence, found, now=now)
        if has_found:
            reach("dispatcher.devices-found")
        has_changed = lose_devices(self._lease.fence, lost, now=now) | has_found
        if has_changed:
            reach("dispatcher.devices-lost")
            self._changed_nodes()
        has_moved = self._move(misplaced, now)
        # Only what was carried through counts: nothing is launched in a lease before its first sweep.
        self._sweep_at = now + timedelta(seconds=self._settings.dispatcher_poll_seconds)
        return has_moved or has_changed, strays.short_units

    def _find_misplaced(self, now: datetime) -> list[tuple[LiveAttempt, Seats]]:
        """Only a database that was restored can differ so: it comes with a new lease."""
        live = load_attempts(self._lease.fence.conn, self._lease.fence.pool_id, now=now)
        return misplaced_of(live, self._sightings, node_ids=self._book.ids)

    def _move(self, misplaced: Sequence[tuple[LiveAttempt, Seats]], now: datetime) -> bool:
        """X7: what runs in other places than the books say gets its next attempt."""
        moved = [attempt for attempt, _ in misplaced if not is_stopping(attempt)]
        result = PassResult(node_names=self._book.names)
        for attempt in moved:
            policy = policy_of(attempt, self._settings)
            result.decided.append((attempt, judge_launch_conflict(policy, "seen by the launcher")))
        if not result:
            return False
        has_moved = bool(commit_observations(self._lease.fence, result, now=now))
        reach("dispatcher.misplaced-moved")
        return has_moved
