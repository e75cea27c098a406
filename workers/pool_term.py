"""One lease of a dispatcher: what it has seen and told while it holds the pool, and its rounds.

Nothing of it outlasts the lease: the next one begins with a comparison of the books and the launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import structlog

from service.clock import Clock
from service.operations.dispatch import PoolFence, claim_attempts
from service.operations.observe import PassResult, Recorded, commit_observations
from service.operations.secret_box import SecretBox
from service.points import reach
from service.settings import Settings
from service.store.attempts import WAITING, LiveAttempt
from service.store.work import find_due, load_work
from workers.drains import Drains
from workers.judge import Judge, Stops
from workers.launchers.base import (
    GenerationKey,
    Launcher,
    LauncherUnreachable,
    MemberClosing,
    MemberKey,
    ResizingLauncher,
)
from workers.launching import Handed, Pace, hand_over
from workers.pool_nodes import PoolNodes
from workers.reconcile import Sightings, generation_of, has_ended
from workers.sweep import Sweep

_log = structlog.get_logger(__name__)


class Done(NamedTuple):
    """Of one round: whether anything was done, and whether there may be more to do at this instant that
    nobody will ring for."""

    is_any: bool
    has_more: bool


class PoolTerm:
    """Serves a pool through `launcher` under the lease that `fence` stands for."""

    def __init__(
        self,
        fence: PoolFence,
        launcher: Launcher,
        *,
        pool_name: str,
        pace: Pace,
        box: SecretBox,
        clock: Clock,
        settings: Settings,
        ring_leader: Callable[[], None],
    ) -> None:
        self._fence = fence
        self._launcher = launcher
        self._pool_name = pool_name
        self._pace = pace
        self._box = box
        self._clock = clock
        self._settings = settings
        self._ring_leader = ring_leader
        self._nodes = PoolNodes(fence, launcher, pool_name=pool_name, ring_leader=ring_leader)
        self._sweep = Sweep(fence, launcher, nodes=self._nodes, settings=settings)
        self._drains = Drains(fence, settings)
        self._sightings = Sightings()
        self._told: set[MemberKey] = set()
        self._unclosed_units: set[int] = set()
        self._looked_at: datetime | None = None

    def begin_pass(self) -> None:
        """The launcher is asked for its nodes once in each pass."""
        self._nodes.ask_again()

    def round(self, now: datetime) -> Done:
        """1. Nodes. 2. Strays. 3. Look and read. 4. Launch. 5. Judge. 6. Stop and close. 7. Record.
        8. Drains. Raises LauncherUnreachable."""
        has_changed = self._nodes.register(now)
        # T1: what the books do not hold is closed before anything is launched.
        has_swept, short_units = self._sweep.run(self._sightings, now=now)
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
        self._drop(judge, stops)
        self._close(judge, stops)
        recorded = self._record(judge.result, now)
        has_news = self._sightings.settle(
            changed | {attempt.unit_id for attempt in attempts}, but_not=recorded.outdated
        )
        has_drained = self._drains.evict_due(now)
        return Done(
            is_any=bool(has_changed or has_swept or handed or judge.result or has_drained),
            has_more=has_changed or has_swept or handed.has_more or has_told or has_news or has_drained
            or stops.is_killing or recorded.has_followers,
        )  # fmt: skip

    def round_without_launcher(self, now: datetime, error: LauncherUnreachable) -> Done:
        """Nothing is concluded about members. What never went to the launcher can still end (X1)."""
        if not self._nodes.book.is_unreachable:
            _log.warning("launcher_unreachable", pool=self._pool_name, error=str(error))
        has_changed = self._nodes.set_reachable(is_reachable=False, now=now)
        self._sightings.look(())
        judge = self._judge(now, Handed(), short_units=())
        waiting = [one for one in self._load(now, changed=()) if one.dispatch == WAITING]
        judge.look_at(waiting)
        recorded = self._record(judge.result, now)
        self._sightings = Sightings()
        is_any = has_changed or bool(judge.result)
        return Done(is_any=is_any, has_more=has_changed or recorded.has_followers)

    def next_due_at(self) -> datetime | None:
        """When something falls due that nobody will ring for, None if nothing will. It may be over
        already: what fell due during the pass was not looked at in it."""
        due = find_due(
            self._fence.conn,
            self._fence.pool_id,
            now=self._looked_at or self._clock.now(),
            patience_seconds=self._settings.kill_patience_seconds,
        )
        if due.drain_at is not None:
            self._drains.expect(due.drain_at)
        return due.at

    def live_generations(self) -> set[tuple[int, int, int]]:
        """What the launcher said last: (unit, attempt, generation) of every live member."""
        return {
            (key.unit_id, key.attempt, key.generation)
            for key, members in self._sightings.by_generation().items()
            if not all(has_ended(member) for member in members)
        }

    def _judge(self, now: datetime, handed: Handed, *, short_units: Collection[int]) -> Judge:
        return Judge(
            fence=self._fence,
            book=self._nodes.book,
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
            self._fence.conn,
            self._fence.pool_id,
            now=now,
            changed=changed,
            # Where something cannot be started, all that waits is looked at: what can be may come later.
            most_waiting=None if self._nodes.book.faults else self._pace.most,
        )

    def _launch(self, attempts: list[LiveAttempt], now: datetime) -> tuple[Handed, list[LiveAttempt]]:
        """Hand over what can be started; and these attempts, as they are after that."""
        startable = [attempt for attempt in attempts if self._nodes.book.faults.is_startable(attempt)]
        if not startable:
            return Handed(), attempts
        claimed = claim_attempts(self._fence, startable[: self._pace.most], now=now)
        reach("dispatcher.attempts-claimed")
        with self._pace.of(len(claimed)):
            handed = hand_over(
                self._launcher,
                claimed,
                box=self._box,
                node_names=self._nodes.book.names,
                settings=self._settings,
            )
        reach("dispatcher.members-launched")
        handed.has_more = len(startable) >= self._pace.most
        taken = {one.attempt.unit_id: one.attempt for one in claimed}
        for unit_id, attempt in taken.items():
            if generation_of(attempt) in handed.grown:
                taken[unit_id] = replace(attempt, adding=())
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

    def _drop(self, judge: Judge, stops: Stops) -> None:
        """Close members that running groups give up."""
        if not stops.drop or not isinstance(self._launcher, ResizingLauncher):
            return
        closings = [
            MemberClosing(key=MemberKey(*attempt.key, member), revision=attempt.revision)
            for attempt in stops.drop
            for member in attempt.dropping
        ]
        answers = zip(closings, self._launcher.close_members(closings), strict=True)
        reach("dispatcher.members-closed")
        left = {closing.key.unit_id for closing, is_gone in answers if not is_gone}
        judge.conclude_drops(attempt for attempt in stops.drop if attempt.unit_id not in left)
        self._told = {member for member in self._told if member not in {each.key for each in closings}}

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
        recorded = commit_observations(self._fence, result, now=now)
        reach("dispatcher.pass-recorded")
        if recorded.has_lost_devices:
            self._nodes.read_again()
        if recorded.released or recorded.has_lost_devices or recorded.has_resized:
            self._ring_leader()
        if recorded.handed_over:
            done = {GenerationKey(*key) for key in recorded.handed_over}
            self._told = {member for member in self._told if member.of not in done}
            self._launcher.forget(sorted(done))
            reach("dispatcher.generations-forgotten")
        return recorded
