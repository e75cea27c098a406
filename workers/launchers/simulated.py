"""A launcher whose members live on a clock: for scenarios, benches and demos. Nothing really runs.

A member runs for as long as its command says, `simulate --seconds 0.5 --exit-code 0`, or else its
variables MUSTER_SIM_SECONDS and MUSTER_SIM_EXIT_CODE; without either until it is told to stop, which
takes it no time, or what `--stop-seconds` says, but no longer than its grace.
`simulate --cannot-execute` is a command that cannot be executed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from workers.launchers.base import (
    Capabilities,
    CloseResult,
    GenerationKey,
    LaunchResult,
    MemberClosing,
    MemberKey,
    MemberLaunch,
    MemberObservation,
    NodeReport,
)
from workers.launchers.simulated_cluster import SimulatedCluster


class SimulatedLauncher:
    """The launcher of one pool of a simulated cluster.

    `has_timer`: a thread calls `on_change` when a member ends by the clock; not with a clock that is
    moved by hand. `owns_cluster`: the cluster's journal is closed when this object is stopped.
    """

    def __init__(
        self, cluster: SimulatedCluster, pool: str, *, has_timer: bool = False, owns_cluster: bool = False
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._pool = pool
        self._has_timer = has_timer
        self._owns_cluster = owns_cluster
        self._stopping = threading.Event()
        self._nudge = threading.Event()
        self._wakes: list[Callable[[], None]] = []
        self._timer: threading.Thread | None = None

    def capabilities(self) -> Capabilities:
        return Capabilities(kind="simulated", is_simulated=True, has_logs=False, can_resize=True)

    def inventory(self) -> Sequence[NodeReport]:
        return self._cluster.inventory(self._pool)

    def launch(self, members: Sequence[MemberLaunch]) -> Sequence[LaunchResult]:
        results = self._cluster.launch(self._pool, members)
        self._nudge.set()
        return results

    def observe(self) -> Sequence[MemberObservation]:
        return self._cluster.observe(self._pool)

    def terminate(self, members: Sequence[MemberKey], *, grace_seconds: float) -> None:
        self._cluster.terminate(self._pool, members, grace_seconds=grace_seconds)
        self._nudge.set()

    def close(self, generations: Sequence[GenerationKey]) -> Sequence[CloseResult]:
        return self._cluster.close(self._pool, generations)

    def close_members(self, members: Sequence[MemberClosing]) -> Sequence[bool]:
        return self._cluster.close_members(self._pool, members)

    def forget(self, generations: Sequence[GenerationKey]) -> None:
        self._cluster.forget(self._pool, generations)

    def on_change(self, wake: Callable[[], None]) -> None:
        self._wakes.append(wake)
        self._cluster.on_change(wake)
        if self._has_timer and self._timer is None:
            self._timer = threading.Thread(target=self._run, name="simulated-timer", daemon=True)
            self._timer.start()

    def stop(self) -> None:
        self._stopping.set()
        self._nudge.set()
        for wake in self._wakes:
            self._cluster.no_more(wake)
        if self._timer is not None:
            self._timer.join()
        if self._owns_cluster:
            self._cluster.close_journal()

    def _run(self) -> None:
        while not self._stopping.is_set():
            due = self._cluster.next_due_at()
            seconds = None if due is None else max(0.0, (due - self._clock.now()).total_seconds())
            if self._nudge.wait(seconds):
                self._nudge.clear()
            else:
                for wake in list(self._wakes):
                    wake()
