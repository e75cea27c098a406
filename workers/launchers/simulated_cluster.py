"""A cluster whose members live on a clock, and the switches with which a test or a bench moves it."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from service.clock import Clock
from workers.launchers.base import (
    CloseResult,
    GenerationKey,
    LauncherUnreachable,
    LaunchResult,
    MemberClosing,
    MemberKey,
    MemberLaunch,
    MemberObservation,
    NodeReport,
    Outcome,
)
from workers.launchers.simulated_journal import Journal, SimulatedMember
from workers.launchers.simulated_members import MemberTable
from workers.launchers.simulated_program import CannotExecute, program_of
from workers.launchers.simulated_records import Records
from workers.launchers.simulated_tombstones import Tombstones

_SIGTERM_CODE, _SIGKILL_CODE = 128 + 15, 128 + 9
_OLDEST_CLAIM = timedelta(hours=1)


class Exit(StrEnum):
    """How a member takes being told to stop: gone at once; only when its grace is over; only when an
    `end` says so, whatever is done to it."""

    AT_ONCE = "at_once"
    AFTER_GRACE = "after_grace"
    WHEN_TOLD = "when_told"


@dataclass(slots=True)
class Behaviour:
    """How the cluster treats the members of one group from now on."""

    refuses: bool = False
    message: str | None = None
    is_ready: bool = True
    exits: Exit = Exit.AT_ONCE


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
        self._pool_of = {node.name: pool for pool, reports in nodes.items() for node in reports}
        self._nodes = {node.name: _booted(node, 1) for reports in nodes.values() for node in reports}
        self._boots = dict.fromkeys(self._nodes, 1)
        self._unreachable: set[str] = set()
        self._behaviours: dict[str, Behaviour] = {}
        self._members = MemberTable()
        self._tombstones = Tombstones()
        self._due: list[tuple[datetime, tuple[int, int, int, int]]] = []
        self._wakes: list[Callable[[], None]] = []
        self._keeps_records = keeps_records
        self._journal = Journal(journal) if journal is not None else None
        self.records = Records()
        if self._journal is not None:
            self._load(self._journal)

    @property
    def clock(self) -> Clock:
        return self._clock

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
                self._gone(one, at=now, exit_code=exit_code)
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
            behaviour = self._behaviours.setdefault(group, Behaviour())
            if refuses is not None:
                behaviour.refuses, behaviour.message = refuses, message
            if exits is not None:
                behaviour.exits = exits
            if is_ready is not None:
                behaviour.is_ready = is_ready
                for member in self._members.live(group) if is_ready else ():
                    member.is_ready = True
                    self._members.touch(member)
            self._changed()

    def node_down(self, name: str) -> None:
        """The machine stops: its members are gone without an exit code."""
        with self._lock:
            now = self._settle()
            for member in self._members.live_on(name):
                member.is_lost = True
                self._gone(member, at=now, exit_code=0)
            self._nodes[name] = replace(self._nodes[name], is_ready=False)
            self._changed()

    def node_up(self, name: str) -> None:
        """It is back, booted anew."""
        with self._lock:
            self._boots[name] += 1
            self._nodes[name] = _booted(self._nodes[name], self._boots[name])
            self._changed()

    def set_reachable(self, pool: str, *, is_reachable: bool) -> None:
        """Whether calls to the pool's launcher are answered. Members live on."""
        with self._lock:
            if is_reachable:
                self._unreachable.discard(pool)
            else:
                self._unreachable.add(pool)
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
            return self._due[0][0] if self._due else None

    # ------------------------------------------------------------ the launcher's calls
    def inventory(self, pool: str) -> list[NodeReport]:
        with self._answering(pool, saves=False):
            return [node for name, node in self._nodes.items() if self._pool_of[name] == pool]

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
                    self._terminate(member, now, grace_seconds=grace_seconds)

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
    def _answering(self, pool: str, *, saves: bool = True) -> _Answering:
        return _Answering(self, pool, saves=saves)

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
            program = program_of(launch.command, launch.env)
        except CannotExecute as error:
            return LaunchResult(key=key, outcome=Outcome.CANNOT_EXECUTE, message=str(error))
        member = SimulatedMember(
            *_tuple(key),
            pool=pool,
            group=launch.group_name,
            node=launch.node,
            devices=tuple(launch.devices),
            started_at=now,
            is_ready=self._behaviour(launch.group_name).is_ready,
            exit_code=program.exit_code,
        )
        if program.seconds is not None:
            member.ends_at = now + timedelta(seconds=program.seconds)
            heapq.heappush(self._due, (member.ends_at, member.key))
        self._started(member, now)
        return LaunchResult(key=key, outcome=Outcome.STARTED)

    def _refusal(self, pool: str, launch: MemberLaunch, *, now: datetime) -> str | None:
        if now - launch.claimed_at > _OLDEST_CLAIM:
            return "the claim is older than an hour"
        behaviour = self._behaviour(launch.group_name)
        if behaviour.refuses:
            return behaviour.message or "refused"
        node = self._nodes.get(launch.node)
        if node is None or self._pool_of[launch.node] != pool:
            return f"there is no node {launch.node}"
        return None if node.is_ready else f"node {launch.node} is down"

    def _started(self, member: SimulatedMember, now: datetime) -> None:
        self._members.add(member)
        self._members.touch(member)
        self.records.double_booked += self._members.sit_down(member)
        if self._keeps_records:
            self.records.add_start(now, member)

    def _terminate(self, member: SimulatedMember, now: datetime, *, grace_seconds: float) -> None:
        member.was_told_to_stop = True
        self._members.touch(member)
        how = self._behaviour(member.group).exits
        if how is Exit.AT_ONCE:
            self._gone(member, at=now, exit_code=_SIGTERM_CODE)
        elif how is Exit.AFTER_GRACE:
            member.kill_at = now + timedelta(seconds=grace_seconds)
            heapq.heappush(self._due, (member.kill_at, member.key))

    def _close(self, pool: str, key: GenerationKey, *, now: datetime) -> CloseResult:
        self._tombstones.close(pool, key, now=now)
        survivors = []
        for member in [one for one in self._members.of_unit(pool, key.unit_id) if one.is_live]:
            if (member.attempt, member.generation) > (key.attempt, key.generation):
                continue
            member.was_told_to_stop = True
            if self._behaviour(member.group).exits is Exit.WHEN_TOLD:
                self._members.touch(member)
                survivors.append(MemberKey(*member.key))
            else:
                self._gone(member, at=now, exit_code=_SIGKILL_CODE)
        return CloseResult(key=key, is_closed=not survivors, survivors=tuple(survivors))

    def _close_member(self, pool: str, closing: MemberClosing, *, now: datetime) -> bool:
        key = closing.key
        self._tombstones.close_member(pool, closing, now=now)
        member = self._members.find(_tuple(key))
        if member is None:
            return True
        if member.is_live:
            member.was_told_to_stop = True
            if self._behaviour(member.group).exits is Exit.WHEN_TOLD:
                self._members.touch(member)
                return False
            self._gone(member, at=now, exit_code=_SIGKILL_CODE)
        self._members.remove(member, is_kept=self._keeps_records)
        return True

    def _gone(self, member: SimulatedMember, *, at: datetime, exit_code: int) -> None:
        member.ended_at, member.exit_code = at, exit_code
        self._members.touch(member)
        self._members.stand_up(member)
        if self._keeps_records:
            self.records.add_gone(at, member, was_stopped=member.was_told_to_stop)

    def _settle(self) -> datetime:
        """Everything that fell due by the clock has happened, at its instant."""
        now = self._clock.now()
        while self._due and self._due[0][0] <= now:
            at, key = heapq.heappop(self._due)
            member = self._members.find(key)
            if member is not None and member.is_live:
                is_kill = member.kill_at == at
                self._gone(member, at=at, exit_code=_SIGKILL_CODE if is_kill else member.exit_code)
        return now

    def _behaviour(self, group: str) -> Behaviour:
        return self._behaviours.get(group) or Behaviour()

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

    def _load(self, journal: Journal) -> None:
        self._tombstones.load(journal, self._clock.now())
        for member in journal.members():
            self._members.add(member)
            if member.is_live:
                for due in filter(None, (member.ends_at, member.kill_at)):
                    heapq.heappush(self._due, (due, member.key))
                self._members.sit_down(member)


class _Answering:
    """One call to a pool's launcher: it answers, alone, and what it changed is durable before, or with
    the next call that `saves`."""

    def __init__(self, cluster: SimulatedCluster, pool: str, *, saves: bool) -> None:
        self._cluster = cluster
        self._pool = pool
        self._saves = saves

    def __enter__(self) -> None:
        self._cluster._lock.acquire()
        if self._pool in self._cluster._unreachable:
            self._cluster._lock.release()
            raise LauncherUnreachable(f"the simulated launcher of pool {self._pool} is out of reach")

    def __exit__(self, *_: object) -> None:
        try:
            if self._saves:
                self._cluster._save()
        finally:
            self._cluster._lock.release()


def _tuple(key: MemberKey) -> tuple[int, int, int, int]:
    return (key.unit_id, key.attempt, key.generation, key.member)


def _booted(node: NodeReport, boot: int) -> NodeReport:
    return replace(node, is_ready=True, boot_id=f"{node.name}-{boot}")
