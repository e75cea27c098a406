"""One simulated node on which processes are started one by one, each for itself."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from examples.demo.per_process import Process
from examples.demo.submitted import GPUS, RANKS
from service.clock import VirtualClock
from workers.launchers.base import (
    DeviceReport,
    GenerationKey,
    MemberKey,
    MemberLaunch,
    MemberObservation,
    MemberState,
    NodeReport,
    Outcome,
)
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_cluster import SimulatedCluster

_POOL = "demo"
_NODE = NodeReport(
    name="node-1",
    cpus_milli=16_000 * GPUS,
    memory_mib=128 * 1024 * GPUS,
    labels={},
    devices=tuple(DeviceReport(index=gpu, model="H100-80GB", memory_mib=80 * 1024) for gpu in range(GPUS)),
)


class SimulatedNode:
    """Muster's simulated launcher, used without Muster: each process is launched alone."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._cluster = SimulatedCluster({_POOL: [_NODE]}, clock)
        self._launcher = SimulatedLauncher(self._cluster, _POOL)
        self._processes: dict[GenerationKey, Process] = {}

    def start(self, process: Process, gpu: int, *, seconds: float | None) -> None:
        """Start one process on one GPU, for so long, or until the node is left."""
        key = MemberKey(unit_id=len(self._processes) + 1, attempt=1, generation=1, member=0)
        command = ("simulate",) if seconds is None else ("simulate", "--seconds", str(seconds))
        (result,) = self._launcher.launch(
            [
                MemberLaunch(
                    key=key,
                    group_name=process.job,
                    role="process",
                    node=_NODE.name,
                    devices=(gpu,),
                    cpus_milli=1000,
                    memory_mib=1024,
                    command=command,
                    workdir=None,
                    image=None,
                    env={},
                    secrets={},
                    rank=process.rank,
                    world_size=RANKS,
                    local_rank=process.rank,
                    member_count=RANKS,
                    claimed_at=self._clock.now(),
                )
            ]
        )
        assert result.outcome is Outcome.STARTED, result
        self._processes[key.of] = process

    def end(self, job: str) -> None:
        """All processes of a job end by themselves."""
        self._cluster.end(job)

    def live(self) -> list[Process]:
        """The processes that run now."""
        return [self._processes[each.key.of] for each in self._observe(MemberState.READY)]

    def take_ended(self) -> list[Process]:
        """The processes that have ended since the last call."""
        ended = [each.key.of for each in self._observe(MemberState.ENDED)]
        self._launcher.forget(ended)
        return [self._processes[key] for key in ended]

    def _observe(self, state: MemberState) -> list[MemberObservation]:
        return [each for each in self._launcher.observe() if each.state is state]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._launcher.stop()
