"""The local launcher: members are processes of this machine.

An `image` is not used: the command runs where it is. CPUs and memory are counted, not enforced.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from service.clock import Clock, SystemClock
from service.operations.member_logs import log_path
from service.points import reach
from workers.embedded.folders import ServerUser, choose_socket_folder
from workers.launchers.base import (
    Capabilities,
    CloseResult,
    GenerationKey,
    LauncherUnreachable,
    LaunchResult,
    MemberKey,
    MemberLaunch,
    MemberObservation,
    NodeReport,
    Outcome,
)
from workers.launchers.local import durable, tombstones
from workers.launchers.local.ending import Closed, end_closed
from workers.launchers.local.environment import build_environment
from workers.launchers.local.keeper import LOOK
from workers.launchers.local.known import KnownMembers
from workers.launchers.local.layout import Layout
from workers.launchers.local.orders import Report, StartOrder
from workers.launchers.local.ports import NoFreePort, choose_port
from workers.launchers.local.processes import read_boot_id, send_signal
from workers.launchers.local.records import MemberFile
from workers.launchers.local.warm import SILENCE_SECONDS, WarmSpawner
from workers.launchers.local.watch import Watch

_OLDEST_CLAIM = timedelta(hours=1)
_CLOSE_PATIENCE_SECONDS = 0.4
_BELL_NAME = "4194304-000000"  # as long as any


@contextmanager
def _answering() -> Iterator[None]:
    """A disk that is full or a folder that is gone says nothing about members."""
    try:
        yield
    except (OSError, NoFreePort) as error:
        raise LauncherUnreachable(f"the local launcher cannot work: {error}") from error


class LocalLauncher:
    """Runs members below `data`, where records, tombstones and logs lie; a later object adopts them.

    `nodes` tells what this machine offers. A member without a workdir starts in `workdir`, which is
    where this process was started unless said otherwise. `environment` is the service's own, of which
    members get PATH, HOME, LANG and the user's name. `log_limit_bytes` bounds the log of each member.
    A spawner that says nothing for `silence_seconds` is replaced.
    """

    def __init__(
        self,
        data: Path,
        nodes: Callable[[], Sequence[NodeReport]],
        *,
        log_limit_bytes: int = 64 * 1024 * 1024,
        workdir: Path | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._data = data.absolute()
        self._nodes = nodes
        self._log_limit_bytes = log_limit_bytes
        self._workdir = (workdir or Path.cwd()).absolute()
        self._environment = dict(os.environ if environment is None else environment)
        self._clock = clock or SystemClock()
        self._boot_id = read_boot_id()
        self._layout = Layout(self._data / "launcher")
        self._layout.make()
        (self._data / "logs").mkdir(mode=0o700, exist_ok=True)
        bells = choose_socket_folder(self._layout.root / "bells", _BELL_NAME, user=ServerUser.of_caller())
        self._known = KnownMembers(self._layout)
        self._spawner = WarmSpawner(self._layout, bells, silence_seconds=silence_seconds)
        self._launching = threading.Lock()
        self._watch = Watch(bells, self._known, data=self._data, boot_id=self._boot_id, clock=self._clock)

    @property
    def spawner_pid(self) -> int:
        """The process that forks supervisors now."""
        return self._spawner.pid

    def capabilities(self) -> Capabilities:
        return Capabilities(kind="local")

    def inventory(self) -> Sequence[NodeReport]:
        return [replace(node, boot_id=self._boot_id) for node in self._nodes()]

    @_answering()
    def launch(self, members: Sequence[MemberLaunch]) -> Sequence[LaunchResult]:
        """Start members; returns once each was executed, or could not be."""
        with self._launching:
            served = {node.name for node in self._nodes()}
            results = {member.key: self._answer_at_once(member, served) for member in members}
            new = [member for member in members if results[member.key] is None]
            reports = {report.key: report for report in self._start(new)}
        self._known.refresh([member.key for member in new])
        for member in new:
            results[member.key] = self._conclude(member, reports.get(member.key))
        return [result for member in members if (result := results[member.key])]

    def observe(self) -> Sequence[MemberObservation]:
        return self._known.observe()

    @_answering()
    def terminate(self, members: Sequence[MemberKey], *, grace_seconds: float) -> None:
        for key in members:
            known = self._known.find(key)
            if known is None or known.end is not None:
                continue
            try:
                # The first one counts; a later call only tells the supervisor again to look for it.
                durable.create_once(self._layout.stop_order(key), f"{grace_seconds}\n", is_durable=False)
                reach("launcher.stop-ordered")
            except FileNotFoundError:  # ended and forgotten meanwhile
                continue
            send_signal(known.record.supervisor, LOOK)

    @_answering()
    def close(self, generations: Sequence[GenerationKey]) -> Sequence[CloseResult]:
        tombstones.forbid(self._layout, generations)
        reach("launcher.generations-forbidden")
        left = end_closed(
            Closed(generations),
            self._known,
            boot_id=self._boot_id,
            now=self._clock.now(),
            patience_seconds=_CLOSE_PATIENCE_SECONDS,
        )
        if left:
            self._watch.look_at_all()
        return [_close_result(key, left) for key in generations]

    @_answering()
    def forget(self, generations: Sequence[GenerationKey]) -> None:
        """Drop the records of generations, and of those before, of which no member is live.

        Logs and tombstones stay. A start whose record is dropped would not be known as one, so a
        generation that was not closed is closed before.
        """
        live = {record.key for record in self._known.live()}
        live_units = {key.unit_id for key in live}
        over = [
            key
            for key in generations
            if key.unit_id not in live_units or not any(other in Closed([key]) for other in live)
        ]
        tombstones.forbid(self._layout, over)
        reach("launcher.over-forbidden")
        closed = Closed(over)
        for unit_id in closed.units:
            self._known.drop_ended(unit_id, closed)

    def on_change(self, wake: Callable[[], None]) -> None:
        self._watch.call(wake)

    def stop(self) -> None:
        self._watch.stop()
        self._spawner.stop()

    def _answer_at_once(self, member: MemberLaunch, served: set[str]) -> LaunchResult | None:
        """What was closed or done before, or cannot be done here; None: start it."""
        key = member.key
        if tombstones.is_closed(self._layout, key.of):
            return _refused(member, "this generation was closed")
        if known := self._known.find(key):
            return _answer_again(member, known)
        if self._clock.now() - member.claimed_at > _OLDEST_CLAIM:
            return _refused(member, "its claim is older than an hour")
        if member.node not in served:
            return _refused(member, f"no node {member.node!r} is served here")
        return None

    def _start(self, members: Sequence[MemberLaunch]) -> Sequence[Report]:
        if not members:
            return ()
        for unit_id in {member.key.unit_id for member in members}:
            self._layout.make_unit(unit_id)
        durable.sync_folder(self._layout.units)
        reach("launcher.folders-made")
        taken = {record.master_port for record in self._known.live()}
        ports: dict[GenerationKey, int] = {}
        for generation in dict.fromkeys(member.key.of for member in members):
            ports[generation] = choose_port(self._layout.port(generation), taken | set(ports.values()))
            reach("launcher.port-chosen")
        return self._spawner.start([self._order(member, ports[member.key.of]) for member in members])

    def _order(self, member: MemberLaunch, port: int) -> StartOrder:
        return StartOrder(
            key=member.key,
            node=member.node,
            devices=member.devices,
            master_port=port,
            command=member.command,
            workdir=member.workdir or str(self._workdir),
            env=build_environment(member, owner=self._layout.owner, master_port=port, own=self._environment),
            hidden=tuple(member.secrets.values()),
            log=str(log_path(self._data, member.key)),
            log_limit_bytes=self._log_limit_bytes,
        )

    def _conclude(self, member: MemberLaunch, report: Report | None) -> LaunchResult:
        if report and report.outcome:
            return LaunchResult(key=member.key, outcome=report.outcome, message=report.message)
        if tombstones.is_closed(self._layout, member.key.of):
            return _refused(member, "this generation was closed")
        if known := self._known.find(member.key):
            return _answer_again(member, known)
        # Nobody is left who could still start it, so this had no effect.
        raise LauncherUnreachable(f"the supervisor of {member.key} ended before it started anything")


def _refused(member: MemberLaunch, message: str) -> LaunchResult:
    return LaunchResult(key=member.key, outcome=Outcome.REFUSED, message=message)


def _answer_again(member: MemberLaunch, known: MemberFile) -> LaunchResult:
    """Answer a launch that was carried out before (X7)."""
    record = known.record
    if (record.node, record.devices) != (member.node, member.devices):
        message = f"it was started on {record.node} with devices {list(record.devices)}"
        return LaunchResult(key=member.key, outcome=Outcome.CONFLICT, message=message)
    if known.end and known.end.cannot_execute:
        return LaunchResult(key=member.key, outcome=Outcome.CANNOT_EXECUTE, message=known.end.detail)
    return LaunchResult(key=member.key, outcome=Outcome.STARTED)


def _close_result(key: GenerationKey, left: set[MemberKey]) -> CloseResult:
    closed = Closed([key])
    survivors = tuple(sorted(member for member in left if member in closed))
    return CloseResult(key=key, is_closed=not survivors, survivors=survivors)
