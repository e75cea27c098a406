"""The simulated launcher as a scenario drives and reads it. It outlives restarts of the service."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.domain.unit import index_of
from tests.scenarios.scenario import Map
from workers.launchers.base import DeviceReport, MemberKey, MemberLaunch, NodeReport
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_behaviour import Exit
from workers.launchers.simulated_cluster import SimulatedCluster

if TYPE_CHECKING:
    from tests.scenarios.stage import Stage


@dataclass(frozen=True)
class Live:
    """A live member, with what it was launched with. `index`: of an independent member."""

    group: str
    node: str
    gpus: int
    cpus_milli: int
    memory_mib: int
    attempt: int
    index: int


class LauncherView:
    """Controls by scenario names, and what happened, in order. `since` is the number of a step."""

    def __init__(self, stage: Stage, cluster: Map) -> None:
        self._stage = stage
        self._ended_by_step: dict[int, list[MemberKey]] = {}
        by_pool: dict[str, list[NodeReport]] = {}
        for node in cluster["nodes"]:
            by_pool.setdefault(stage.pool(node["name"]), []).append(_report(stage, node))
        self._cluster = SimulatedCluster(by_pool, stage.clock)
        for node in cluster["nodes"]:
            if node.get("health") == "down":
                self._cluster.node_down(node["name"])

    def of_pool(self, pool: str) -> SimulatedLauncher:
        return SimulatedLauncher(self._cluster, pool)

    # ------------------------------------------------------------------ controls
    def end(self, group: str, member: int | None, exit_code: int, step: int) -> None:
        ended = self._cluster.end(group, member=member, exit_code=exit_code)
        assert ended, f"nothing of {group} is live that could end"
        self._ended_by_step.setdefault(step, []).extend(ended)

    def report_again(self, step: int) -> None:
        self._cluster.report_again(self._ended_by_step[step])

    def simulate(
        self,
        group: str,
        *,
        launch: str | None = None,
        ready: str | None = None,
        exits: str | None = None,
        message: str | None = None,
    ) -> None:
        self._cluster.behave(
            group,
            refuses=None if launch is None else launch == "refuse",
            message=message,
            is_ready=None if ready is None else ready == "at_once",
            exits=None if exits is None else Exit(exits),
        )

    def node_down(self, node: str) -> None:
        self._cluster.node_down(node)

    def node_up(self, node: str) -> None:
        self._cluster.node_up(node)

    def set_reachable(self, pool: str, *, is_reachable: bool) -> None:
        self._cluster.set_reachable(pool, is_reachable=is_reachable)

    # ------------------------------------------------------------------ what happened
    def marker(self) -> int:
        return self._cluster.records.mark()

    def live(self) -> list[Live]:
        launches = {sent.launch.key: sent.launch for sent in self._cluster.records.sent}
        return [_live(launches[key]) for key in self._cluster.live_members()]

    def launched(self, groups: Iterable[str] | None, since: int) -> int:
        wanted, first = None if groups is None else set(groups), self._mark(since)
        starts = self._cluster.records.starts
        return sum(one.order >= first and (wanted is None or one.group in wanted) for one in starts)

    def stopped(self, groups: Iterable[str] | None, since: int) -> int:
        wanted, first = None if groups is None else set(groups), self._mark(since)
        gone = [one for one in self._cluster.records.gone if one.was_stopped]
        return sum(one.order >= first and (wanted is None or one.group in wanted) for one in gone)

    def last_gone(self, groups: list[str]) -> int | None:
        """Order of the last end of these groups' members; None if one still lives or none was."""
        if any(live.group in groups for live in self.live()):
            return None
        return max((one.order for one in self._cluster.records.gone if one.group in groups), default=None)

    def first_start(self, groups: list[str]) -> int | None:
        return min((one.order for one in self._cluster.records.starts if one.group in groups), default=None)

    def peak_live_gpus(self, node: str, since: int) -> int:
        return self._cluster.records.peak_live_gpus(node, since=self._mark(since))

    def sent(self, group: str, attempt: int) -> list[MemberLaunch]:
        launches = [sent.launch for sent in self._cluster.records.sent]
        return [one for one in launches if one.group_name == group and one.key.attempt == attempt]

    def _mark(self, step: int) -> int:
        return int(self._stage.marker(step)["launcher"])


def _live(launch: MemberLaunch) -> Live:
    return Live(
        group=launch.group_name,
        node=launch.node,
        gpus=len(launch.devices),
        cpus_milli=launch.cpus_milli,
        memory_mib=launch.memory_mib,
        attempt=launch.key.attempt,
        index=index_of(launch.key.unit_id),
    )


def _report(stage: Stage, node: Map) -> NodeReport:
    room = stage.room(node["name"])
    return NodeReport(
        name=node["name"],
        cpus_milli=room["cpus_milli"],
        memory_mib=room["memory_mib"],
        labels=dict(node.get("labels", {})),
        devices=tuple(
            DeviceReport(index=index, model=stage.model(node["name"]), memory_mib=80 * 1024)
            for index in range(node["gpus"])
        ),
    )
