"""Launchers under test: each knows how to make its own kind of member run, end and fail."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from service.clock import SystemClock
from workers.launchers.base import (
    GenerationKey,
    Launcher,
    MemberKey,
    MemberLaunch,
    MemberObservation,
    MemberState,
)
from workers.launchers.local.launcher import LocalLauncher
from workers.launchers.local.nodes import parse_nodes
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_cluster import SimulatedCluster

NODES = "2x8xH100-80GB"
LIVE = (MemberState.STARTING, MemberState.READY)


class Subject(Protocol):
    """One launcher with its backend. `reopen` replaces the object, as a restarted dispatcher would."""

    @property
    def launcher(self) -> Launcher: ...

    def reopen(self) -> None: ...

    def run(self) -> tuple[str, ...]:
        """A command that runs until it is ended."""

    def end_with(self, code: int) -> tuple[str, ...]:
        """A command that ends soon."""

    def fail(self) -> tuple[str, ...]:
        """A command that cannot be executed."""

    def stop(self) -> None:
        """End what the test left."""


class LocalSubject:
    """Real processes below a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.launcher: Launcher = self._open()

    def reopen(self) -> None:
        self.launcher.stop()
        self.launcher = self._open()

    def run(self) -> tuple[str, ...]:
        return ("sleep", "60")

    def end_with(self, code: int) -> tuple[str, ...]:
        return (sys.executable, "-S", "-c", f"raise SystemExit({code})")

    def fail(self) -> tuple[str, ...]:
        return ("/nonexistent/program",)

    def stop(self) -> None:
        live = {seen.key.of for seen in self.launcher.observe() if seen.state in LIVE}
        wait_until(lambda: all(result.is_closed for result in self.launcher.close(sorted(live))))
        self.launcher.stop()

    def _open(self) -> LocalLauncher:
        nodes = parse_nodes(NODES)
        return LocalLauncher(self._folder, lambda: nodes)


class SimulatedSubject:
    """Members on the machine's clock; the cluster outlives the launcher object."""

    def __init__(self, folder: Path) -> None:
        self._cluster = SimulatedCluster({"pool": parse_nodes(NODES)}, SystemClock())
        self.launcher: Launcher = self._open()

    def reopen(self) -> None:
        self.launcher.stop()
        self.launcher = self._open()

    def run(self) -> tuple[str, ...]:
        return ("simulate",)

    def end_with(self, code: int) -> tuple[str, ...]:
        return ("simulate", "--seconds", "0.1", "--exit-code", str(code))

    def fail(self) -> tuple[str, ...]:
        return ("simulate", "--cannot-execute")

    def stop(self) -> None:
        self.launcher.stop()

    def _open(self) -> SimulatedLauncher:
        return SimulatedLauncher(self._cluster, "pool", has_timer=True)


#: A new launcher is held to the suite by one more line here.
SUBJECTS: dict[str, Callable[[Path], Subject]] = {"local": LocalSubject, "simulated": SimulatedSubject}


def member(
    command: Sequence[str],
    *,
    unit_id: int = 1 << 20,
    attempt: int = 1,
    generation: int = 0,
    member: int = 0,
    world_size: int = 1,
    node: str = "node-1",
    devices: tuple[int, ...] = (0,),
    claim_age_seconds: float = 0,
    workdir: str | None = None,
    env: dict[str, str] | None = None,
    secrets: dict[str, str] | None = None,
) -> MemberLaunch:
    """A member to launch, with what a test does not care about filled in."""
    return MemberLaunch(
        key=MemberKey(unit_id, attempt, generation, member),
        group_name="train",
        role="worker",
        node=node,
        devices=devices,
        cpus_milli=1000,
        memory_mib=1024,
        command=tuple(command),
        workdir=workdir,
        image=None,
        env=env or {},
        secrets=secrets or {},
        rank=member,
        world_size=world_size,
        local_rank=member,
        member_count=world_size,
        claimed_at=SystemClock().now() - timedelta(seconds=claim_age_seconds),
    )


def wait_until(is_so: Callable[[], bool], *, seconds: float = 10.0) -> None:
    """Wait until `is_so`; a test that waits too long fails."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def find(launcher: Launcher, key: MemberKey) -> MemberObservation | None:
    """What is observed of one member."""
    return next((seen for seen in launcher.observe() if seen.key == key), None)


def wait_for_end(launcher: Launcher, key: MemberKey, *, seconds: float = 10.0) -> MemberObservation:
    """Wait until a member is not live any more."""

    def has_ended() -> bool:
        seen = find(launcher, key)
        return seen is not None and seen.state not in LIVE

    wait_until(has_ended, seconds=seconds)
    seen = find(launcher, key)
    assert seen is not None
    return seen


def close_surely(launcher: Launcher, key: GenerationKey) -> None:
    """Close as a dispatcher does: ask again until it is closed."""
    wait_until(lambda: launcher.close([key])[0].is_closed)
