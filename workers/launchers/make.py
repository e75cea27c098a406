"""The launcher that the settings name."""

from __future__ import annotations

from service.clock import Clock
from service.settings import Settings
from workers.launchers.base import Launcher
from workers.launchers.local.launcher import LocalLauncher
from workers.launchers.local.nodes import offer_nodes, parse_nodes
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_cluster import SimulatedCluster


def make_launcher(settings: Settings, clock: Clock) -> Launcher:
    """The launcher of the settings' pool. Raises ValueError if they name none, or wrong nodes, and
    NvmlMissing if no nodes are declared and this machine shows no GPU."""
    if settings.launcher == "local":
        return LocalLauncher(
            settings.data,
            offer_nodes(settings.nodes or None),
            log_limit_bytes=settings.log_limit_bytes,
            clock=clock,
        )
    if settings.launcher == "simulated":
        cluster = SimulatedCluster(
            {settings.pool: parse_nodes(settings.nodes)},
            clock,
            journal=settings.data / "simulated.sqlite",
            keeps_records=False,
        )
        return SimulatedLauncher(cluster, settings.pool, has_timer=True, owns_cluster=True)
    raise ValueError(f"MUSTER_LAUNCHER is {settings.launcher!r}; it can be local or simulated")
