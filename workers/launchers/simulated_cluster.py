"""A cluster whose members live on a clock, and the switches with which a test or a bench moves it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from service.clock import Clock
from workers.launchers.base import (
    CloseResult,
    GenerationKey,
    LaunchResult,
    MemberClosing,
    MemberKey,
    MemberLaunch,
    MemberObservation,
    NodeReport,
    Outcome,
)
from workers.launchers.simulated_behaviour import Behaviours, Exit
from workers.launchers.simulated_journal import Journal, SimulatedMember
from workers.launchers.simulated_lives import Lives
from workers.launchers.simulated_members import Key, MemberTable
from workers.launchers.simulated_nodes import Nodes
from workers.launchers.simulated_program import CannotExecute, program_of
from workers.launchers.simulated_records import Records
from workers.launchers.simulated_tombstones import Tombstones

_OLDEST_CLAIM = timedelta(hours=1)


class SimulatedCluster:
    """Nodes and members that outlive the service's objects, of one or several pools.

    `journal`: a file that lets them outlive the process too. Thread-safe.
    """

    def __init__(
        self,
        nodes: Mapping[str, Sequence[NodeReport]],
        clock: Clock,
        *,
        journal: Path | None = None,
        keeps_records: bool = True,
    ) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._nodes = Nodes(nodes)
        self._behaviours = Behaviours()
        self._members = MemberTable()
        self._lives = Lives(self._members, self._behaviours, keeps_records=keeps_records)
        self._tombstones = Tombstones()
        self._wakes: list[Callable[[], None]] = []
        self._keeps_records = keeps_records
        self._journal = Journal(journal) if journal is not None else None
        if self._journal is not None:
            self._tombstones.load(self._journal, clock.now())
            self._lives.recall(self._journal.members())

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def records(self) -> Records:
        """What happened, in order."""
        return self._lives.records

    # ------------------------------------------------------------ controls
    def end(
        self, group: str, *, member: int | None = None, attempt: int | None = None, exit_code: int = 0
    ) -> list[MemberKey]:
        """That member of the group, or every live one (of that attempt), ends now by itself."""
        with self._lock:
            now = self._settle()
            ended = [
                one
                for one in self._members.live(group)
                if member in (None, one.member) and attempt in (None, one.attempt)
            ]
            for one in ended:
                self._lives.end(one, at=now, exit_code=exit_code)
            self._changed()
        return [MemberKey(*one.key) for one in ended]

    def report_again(self, keys: Iterable[MemberKey]) -> None:
        """Name these ends once more, although they were forgotten."""
        with self._lock:
            for key in keys:
                self._members.recall(_tuple(key))
            self._changed()

    def behave(
        self,
        group: str,
        *,
        refuses: bool | None = None,
        message: str | None = None,
        is_ready: bool | None = None,
        exits: Exit | None = None,
    ) -> None:
        """From now on the cluster treats the group so; None leaves a thing as it is."""
        with self._lock:
            self._behaviours.change(group, refuses=refuses, message=message, is_ready=is_ready, exits=exits)
            for member in self._members.live(group) if is_ready else ():
                member.is_ready = True
                self._members.touch(member)
            self._changed()

    def node_down(self, name: str) -> None:
        """The machine stops: its members are gone without an exit code."""
        with self._lock:
            now = self._settle()
            for member in self._members.live_on(name):
                self._lives.lose(member, now=now)
            self._nodes.take_down(name)
            self._changed()

    def node_up(self, name: str) -> None:
        """It is back, booted anew."""
        with self._lock:
            self._nodes.boot(name)
            self._changed()

    def set_reachable(self, pool: str, *, is_reachable: bool) -> None:
        """Whether calls to the pool's launcher are answered. Members live on."""
        with self._lock:
            self._nodes.set_reachable(pool, is_reachable=is_reachable)
            self._changed()

    # ------------------------------------------------------------ what tests ask
    def live_members(self, group: str | None = None) -> list[MemberKey]:
        with self._lock:
            self._settle()
            return [MemberKey(*one.key) for one in self._members.live(group)]

    def next_due_at(self) -> datetime | None:
        """When the next member ends by the clock."""
        with self._lock:
            self._settle()
            return self._lives.next_due_at()

    # ------------------------------------------------------------ the launcher's calls
    def inventory(self, pool: str) -> list[NodeReport]:
        with self._answering(pool, saves=False):
            return self._nodes.reports(pool)

    def launch(self, pool: str, members: Sequence[MemberLaunch]) -> list[LaunchResult]:
        with self._answering(pool):
            now = self._settle()
            if self._keeps_records:
                for launch in members:
                    self.records.add_sent(now, pool, launch=launch)
            return [self._launch(pool, launch, now=now) for launch in members]

    def observe(self, pool: str) -> list[MemberObservation]:
        # What ended by the clock would end at the same instant again.
        with self._answering(pool, saves=False):
            self._settle()
            return self._members.observations(pool)

    def terminate(self, pool: str, members: Sequence[MemberKey], *, grace_seconds: float) -> None:
        with self._answering(pool):
            now = self._settle()
            for key in members:
                member = self._members.find(_tuple(key))
                if member is not None and member.is_live and not member.was_told_to_stop:
                    self._lives.tell_to_stop(member, now=now, grace_seconds=grace_seconds)

    def close(self, pool: str, generations: Sequence[GenerationKey]) -> list[CloseResult]:
        with self._answering(pool):
            now = self._settle()
            return [self._close(pool, key, now=now) for key in generations]

    def close_members(self, pool: str, members: Sequence[MemberClosing]) -> list[bool]:
        with self._answering(pool):
            now = self._settle()
            return [self._close_member(pool, closing, now=now) for closing in members]

    def forget(self, pool: str, generations: Sequence[GenerationKey]) -> None:
        # What is still known after a restart is named again, and forgotten then.
        with self._answering(pool, saves=False):
            for key in generations:
                for member in self._members.of_unit(pool, key.unit_id):
                    if not member.is_live and member.key[:3] == (key.unit_id, key.attempt, key.generation):
                        self._members.remove(member, is_kept=self._keeps_records)

    def on_change(self, wake: Callable[[], None]) -> None:
        with self._lock:
            self._wakes.append(wake)

    def no_more(self, wake: Callable[[], None]) -> None:
        with self._lock:
            if wake in self._wakes:
                self._wakes.remove(wake)

    def close_journal(self) -> None:
        """Write no more: the process ends."""
        if self._journal is not None:
            self._save()
            self._journal.close()
            self._journal = None

    # ------------------------------------------------------------ inside
    @contextmanager
    def _answering(self, pool: str, *, saves: bool = True) -> Iterator[None]:
        """One call to a pool's launcher: it answers, alone, and what it changed is durable before, or with
        the next call that `saves`."""
        with self._lock:
            self._nodes.require_reachable(pool)
            try:
                yield
            finally:
                if saves:
                    self._save()

    def _launch(self, pool: str, launch: MemberLaunch, *, now: datetime) -> LaunchResult:
        """1. Closed. 2. Known. 3. Refused. 4. Started (X2, X6, X7)."""
        key = launch.key
        closed = self._tombstones.refusal_of(pool, launch)
        if closed is not None:
            return LaunchResult(key=key, outcome=Outcome.REFUSED, message=closed)
        known = self._members.find(_tuple(key))
        if known is not None:
            is_same = (known.node, known.devices) == (launch.node, tuple(launch.devices))
            return LaunchResult(key=key, outcome=Outcome.STARTED if is_same else Outcome.CONFLICT)
        refusal = self._refusal(pool, launch, now=now)
        if refusal is not None:
            return LaunchResult(key=key, outcome=Outcome.REFUSED, message=refusal)
        try:
            member = self._member(pool, launch, now=now)
        except CannotExecute as error:
            return LaunchResult(key=key, outcome=Outcome.CANNOT_EXECUTE, message=str(error))
        self._lives.start(member, now=now)
        return LaunchResult(key=key, outcome=Outcome.STARTED)

    def _member(self, pool: str, launch: MemberLaunch, *, now: datetime) -> SimulatedMember:
        program = program_of(launch.command, launch.env)
        return SimulatedMember(
            *_tuple(launch.key),
            pool=pool,
            group=launch.group_name,
            node=launch.node,
            devices=tuple(launch.devices),
            started_at=now,
            is_ready=self._behaviours.of(launch.group_name).is_ready,
            ends_at=None if program.seconds is None else now + timedelta(seconds=program.seconds),
            exit_code=program.exit_code,
            stop_seconds=program.stop_seconds,
        )

    def _refusal(self, pool: str, launch: MemberLaunch, *, now: datetime) -> str | None:
        if now - launch.claimed_at > _OLDEST_CLAIM:
            return "the claim is older than an hour"
        behaviour = self._behaviours.of(launch.group_name)
        if behaviour.refuses:
            return behaviour.message or "refused"
        return self._nodes.refusal_of(pool, launch.node)

    def _close(self, pool: str, key: GenerationKey, *, now: datetime) -> CloseResult:
        self._tombstones.close(pool, key, now=now)
        members = [
            one
            for one in self._members.of_unit(pool, key.unit_id)
            if one.is_live and (one.attempt, one.generation) <= (key.attempt, key.generation)
        ]
        survivors = [MemberKey(*one.key) for one in members if not self._lives.kill(one, now=now)]
        return CloseResult(key=key, is_closed=not survivors, survivors=tuple(survivors))

    def _close_member(self, pool: str, closing: MemberClosing, *, now: datetime) -> bool:
        self._tombstones.close_member(pool, closing, now=now)
        member = self._members.find(_tuple(closing.key))
        if member is None:
            return True
        if member.is_live and not self._lives.kill(member, now=now):
            return False
        self._members.remove(member, is_kept=self._keeps_records)
        return True

    def _settle(self) -> datetime:
        """Everything that fell due by the clock has happened; the instant of that."""
        now = self._clock.now()
        self._lives.settle(now)
        return now

    def _changed(self) -> None:
        self._save()
        for wake in list(self._wakes):
            wake()

    def _save(self) -> None:
        changed, forgotten = self._members.take_changes()
        tombstones, closed = self._tombstones.take_new()
        if self._journal is not None and (changed or tombstones or closed or forgotten):
            self._journal.save(
                members=changed, tombstones=tombstones, closed_members=closed, forgotten=forgotten
            )


def _tuple(key: MemberKey) -> Key:
    return (key.unit_id, key.attempt, key.generation, key.member)
