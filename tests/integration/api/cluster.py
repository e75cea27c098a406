"""A small cluster behind the API: a real leader and dispatcher over a simulated launcher, moved by hand."""

from __future__ import annotations

from redis import Redis
from sqlalchemy import Engine

from service.clock import SystemClock
from service.settings import Settings
from workers.admission import Leader
from workers.dispatch import Dispatcher
from workers.launchers.base import DeviceReport, NodeReport
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_cluster import SimulatedCluster


class Cluster:
    """Pool `p1` with nodes of `gpus` GPUs each, named n1, n2, ..."""

    def __init__(
        self, settings: Settings, engine: Engine, redis: Redis, *, gpus: int = 4, nodes: int = 1
    ) -> None:
        clock = SystemClock()
        reports = [_node(f"n{number}", gpus) for number in range(1, nodes + 1)]
        self.machines = SimulatedCluster({"p1": reports}, clock)
        self.dispatcher = Dispatcher(
            engine,
            SimulatedLauncher(self.machines, "p1"),
            pool_name="p1",
            clock=clock,
            settings=settings,
            ring_leader=lambda: None,
        )
        self.leader = Leader(settings.database_url, redis, clock=clock, settings=settings, name="w1")
        self.dispatcher.pass_once()

    def settle(self) -> None:
        """Run cycles and passes until nothing moves."""
        for _ in range(20):
            has_moved = self.dispatcher.pass_once()
            has_moved |= self.leader.run_cycle().admitted > 0
            has_moved |= self.dispatcher.pass_once()
            if not has_moved:
                return
        raise AssertionError("the cluster does not settle")

    def close(self) -> None:
        self.dispatcher.close()
        self.leader.abandon()


def _node(name: str, gpus: int) -> NodeReport:
    return NodeReport(
        name=name,
        cpus_milli=16_000 * gpus,
        memory_mib=128 * 1024 * gpus,
        labels={"host": name},
        devices=tuple(
            DeviceReport(index=index, model="H100-80GB", memory_mib=80 * 1024) for index in range(gpus)
        ),
        boot_id="boot-1",
    )
