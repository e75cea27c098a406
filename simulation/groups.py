"""A job of a log as a group: which members it has, and where it waits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil

from service.admission.world import PendingUnit
from service.domain.dependency import When
from service.domain.resources import Resources
from service.domain.shape import RoleShape, Scheduling, Shape
from service.domain.status import Status
from service.domain.unit import unit_id
from simulation.job import Job
from simulation.logs.job import Ending, LoggedJob
from simulation.logs.log import Log
from simulation.sites.site import Site

#: What a log says of the end, as the end that the replayed group comes to by itself. Who ran into a limit
#: does so again if the limit is in the log.
_ENDS_AS = {
    Ending.FAILED: Status.FAILED,
    Ending.NODE_FAILED: Status.FAILED,
    Ending.CANCELLED: Status.CANCELLED,
}


class Spread(StrEnum):
    """`nodes`: as many GPUs of one node as there are make one member, what is left another. `gpus`: each GPU
    is a member, wherever there is one free."""

    NODES = "nodes"
    GPUS = "gpus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`node_gpus`: GPUs of the largest node by model, and under "" of the largest of all. A log knows no
    grace: told to stop, a group is gone at once, unless `grace_seconds` are given to all."""

    spread: Spread = Spread.NODES
    node_gpus: dict[str, int] = field(default_factory=dict)
    grace_seconds: int = 0


def layout_of(site: Site, *, spread: Spread = Spread.NODES, grace_seconds: int = 0) -> Layout:
    node_gpus = {"": 0}
    for node in site.configuration.nodes.values():
        node_gpus[""] = max(node_gpus[""], len(node.devices))
        for model in {device.model for device in node.devices}:
            count = sum(device.model == model for device in node.devices)
            node_gpus[model] = max(node_gpus.get(model, 0), count)
    return Layout(spread=spread, node_gpus=node_gpus, grace_seconds=grace_seconds)


def jobs_of(log: Log, site: Site, layout: Layout | None = None) -> Iterator[Job]:
    """The jobs of the log that the site takes, in order, each made when it is asked for. The group of the
    n-th job of the log, counted from 1, has the id n. What has no queue, or asks for nothing, is noted in
    `log.left_out`."""
    return Groups(log, site, layout or layout_of(site)).jobs()


class Groups:
    def __init__(self, log: Log, site: Site, layout: Layout) -> None:
        self._log = log
        self._site = site
        self._layout = layout
        self._shapes: dict[tuple[object, ...], tuple[int, Shape]] = {}
        #: Jobs that others name, by name, once they have come.
        self._named: dict[str, int] = {}

    def jobs(self) -> Iterator[Job]:
        awaited = {name for job in self._log.jobs for name in job.after}
        for group_id, logged in enumerate(self._log.jobs, 1):
            if logged.name in awaited:
                self._named[logged.name] = group_id
            queue_id = self._site.queue_for(logged.tenant)
            if queue_id is None:
                self._log.left_out.note("no queue takes its tenant", line=logged.line)
                self._named.pop(logged.name, None)
            else:
                yield self._job(group_id, logged, queue_id)

    def _job(self, group_id: int, logged: LoggedJob, queue_id: int) -> Job:
        shape_id, shape = self._shape_of(logged)
        limit = logged.time_limit_seconds
        return Job(
            row=PendingUnit(
                id=unit_id(group_id, 0),
                group_id=group_id,
                public_id=logged.name or f"g{group_id}",
                queue_id=queue_id,
                shape_id=shape_id,
                priority=logged.priority,
                submitted_at=logged.submitted_at,
                first_index=0,
                last_index=0,
                attempt=1,
                version=1,
                time_limit_seconds=None if limit is None else max(1, ceil(limit)),
                owner=f"{logged.tenant}/{logged.user}",
                grace_seconds=self._layout.grace_seconds,
            ),
            shape=shape,
            # Nothing starts and ends at the same instant.
            runtime_seconds=max(1.0, logged.runtime_seconds),
            stop_seconds=0.0,
            ends_as=_ENDS_AS.get(logged.ending, Status.SUCCEEDED),
            after=self._after(logged.after),
            tenant=logged.tenant,
            withdrawn_at=logged.withdrawn_at,
        )

    def _after(self, names: Collection[str]) -> tuple[tuple[int, When], ...]:
        """Whoever has not come before has ended before the log began."""
        return tuple((self._named[name], When.ANY) for name in names if name in self._named)

    def _shape_of(self, logged: LoggedJob) -> tuple[int, Shape]:
        """Equal jobs have the same."""
        key = (logged.gpus, logged.nodes, logged.cpus_milli, logged.memory_mib, logged.gpu_model)
        found = self._shapes.get(key)
        if found is None:
            shape = shape_of(logged, self._layout)
            found = self._shapes[key] = len(self._shapes) + 1, shape
        return found


def shape_of(logged: LoggedJob, layout: Layout) -> Shape:
    """A gang whose members share CPUs and memory as they share GPUs; without GPUs, evenly."""
    counts = _gpus_of_members(logged, layout)
    roles = []
    for name, (gpus, count) in zip("ab", counts, strict=False):
        part = gpus / logged.gpus if logged.gpus else 1 / count
        requests = Resources(
            gpus=gpus,
            cpus_milli=int((logged.cpus_milli or 0) * part),
            memory_mib=int((logged.memory_mib or 0) * part),
        )
        models = (logged.gpu_model,) if logged.gpu_model and gpus else ()
        roles.append(RoleShape(name=name, count=count, min_count=count, requests=requests, models=models))
    return Shape(scheduling=Scheduling.GANG, roles=tuple(roles))


def _gpus_of_members(logged: LoggedJob, layout: Layout) -> list[tuple[int, int]]:
    """How many members have how many GPUs, most GPUs first."""
    if logged.gpus == 0:
        return [(0, logged.nodes or 1)]
    if layout.spread is Spread.GPUS:
        return [(1, logged.gpus)]
    if logged.nodes is not None and 1 <= logged.nodes <= logged.gpus:
        least, more = divmod(logged.gpus, logged.nodes)
        counts = [(least + 1, more), (least, logged.nodes - more)]
    else:
        sizes = layout.node_gpus
        size = max(1, sizes.get(logged.gpu_model or "", sizes.get("", 1)))
        whole, rest = divmod(logged.gpus, size)
        counts = [(size, whole), (rest, 1)]
    return [(gpus, count) for gpus, count in counts if gpus and count]
