"""A cluster file: groups of equal nodes, their pools and topology, and when which of them is down."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from service.admission.world import Device, Node, Pool
from service.client.documents import read_text
from service.client.errors import FileWrong
from service.client.placed_file import PlacedFile
from service.domain.errors import FieldError, InvalidRequest
from service.domain.node import HOST
from service.wire.decoding import decode
from service.wire.values import cpus_milli_of, memory_mib_of, seconds_of
from simulation.sites.cluster_request import ClusterRequest, Moment, NodesEntry
from simulation.sites.site import Outage, SiteWrong

_CPUS_PER_GPU, _GIB_PER_GPU = 16, 128
_MODEL_MEMORY = re.compile(r"-(\d+)GB$")
_DURATION = re.compile(r"\d+(\.\d+)?\Z|(\d+[dhms])+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    name: str
    pools: Mapping[int, Pool]
    nodes: Mapping[int, Node]
    outages: tuple[Outage, ...] = field(default=())

    @property
    def gpus(self) -> int:
        return sum(len(node.devices) for node in self.nodes.values())


def read_cluster(path: Path) -> Cluster:
    """Raises SiteWrong that names file and line of everything that is wrong."""
    try:
        file = PlacedFile(*read_text(str(path)), parts=("nodes", "pools", "outages"))
    except FileWrong as error:
        raise SiteWrong(str(error)) from None
    try:
        return cluster_of(file.body, name=path.stem)
    except InvalidRequest as error:
        raise SiteWrong("\n".join(file.told(each.field, each.message) for each in error.errors)) from None


def cluster_of(body: Mapping[str, Any], *, name: str) -> Cluster:
    """Nodes have ids from 1 on, in the order of the file. Raises InvalidRequest that names each field."""
    request = decode(msgspec.json.encode(body), ClusterRequest)
    pools = _pools(request)
    nodes: dict[int, Node] = {}
    names: dict[str, int] = {}
    for index, entry in enumerate(request.nodes):
        pool = pools.get(entry.pool)
        if pool is None:
            raise _wrong(f"nodes[{index}].pool", f"There is no pool {entry.pool}.")
        for number in range(entry.count):
            node = _node(entry, number, node_id=len(nodes) + 1, pool=pool)
            if node.name in names:
                raise _wrong(f"nodes[{index}].name", f"There is a node {node.name} already.")
            nodes[node.id] = node
            names[node.name] = node.id
    by_id = {pool.id: pool for pool in pools.values()}
    return Cluster(name=name, pools=by_id, nodes=nodes, outages=tuple(_outages(request, names)))


def _pools(request: ClusterRequest) -> dict[str, Pool]:
    """Without any in the file, one for each name that nodes have, with the levels that they name."""
    said: dict[str, tuple[str, ...]] = {}
    for index, entry in enumerate(request.pools):
        if entry.name in said:
            raise _wrong(f"pools[{index}].name", f"There is a pool {entry.name} already.")
        said[entry.name] = tuple(level for level in entry.levels if level != HOST)
    if not said:
        for nodes in request.nodes:
            levels = dict.fromkeys((*said.get(nodes.pool, ()), *nodes.domains))
            said[nodes.pool] = tuple(levels)
    return {
        name: Pool(id=number, name=name, levels=(*levels, HOST), can_resize=True)
        for number, (name, levels) in enumerate(said.items(), start=1)
    }


def _node(entry: NodesEntry, number: int, *, node_id: int, pool: Pool) -> Node:
    """The `number`th of its group, from 0."""
    name = entry.name if entry.count == 1 else f"{entry.name}-{number + 1}"
    domains = {level: f"{entry.name}-{level}-{number // size + 1}" for level, size in entry.domains.items()}
    cpus = _CPUS_PER_GPU * max(1, entry.gpus) if entry.cpus is None else entry.cpus
    memory = _GIB_PER_GPU * max(1, entry.gpus) if entry.memory_gib is None else entry.memory_gib
    return Node(
        id=node_id,
        name=name,
        pool_id=pool.id,
        cpus_milli=cpus_milli_of(cpus),
        memory_mib=memory_mib_of(memory),
        labels={**entry.labels, **domains, HOST: name},
        devices=tuple(
            Device(index=index, model=entry.model, memory_mib=_gpu_memory_mib(entry))
            for index in range(entry.gpus)
        ),
    )


def _gpu_memory_mib(entry: NodesEntry) -> int:
    if entry.gpu_memory_gib is not None:
        return memory_mib_of(entry.gpu_memory_gib)
    found = _MODEL_MEMORY.search(entry.model)
    return int(found[1]) * 1024 if found else 0


def _outages(request: ClusterRequest, names: Mapping[str, int]) -> Iterator[Outage]:
    for index, entry in enumerate(request.outages):
        at = f"outages[{index}]"
        if entry.node not in names:
            raise _wrong(f"{at}.node", f"There is no node {entry.node}.")
        down = _moment(entry.down, f"{at}.down")
        up = None if entry.up is None else _moment(entry.up, f"{at}.up")
        if isinstance(down, datetime) != isinstance(up, datetime) and up is not None:
            raise _wrong(f"{at}.up", "Must be an instant if down is one, and a duration if down is one.")
        if up is not None and up <= down:  # type: ignore[operator]
            raise _wrong(f"{at}.up", "Must be after down.")
        yield Outage(node_id=names[entry.node], down=down, up=up)


def _moment(said: Moment, field: str) -> datetime | timedelta:
    if isinstance(said, float) or _DURATION.match(said) is not None:
        return timedelta(seconds=seconds_of(said, field=field))
    try:
        at = datetime.fromisoformat(said)
    except ValueError:
        raise _wrong(field, "Write an instant such as 2026-01-31T12:00:00Z, or a duration: 36h.") from None
    if at.tzinfo is None:
        raise _wrong(field, "An instant needs a zone, such as the Z of 2026-01-31T12:00:00Z.")
    return at.astimezone(UTC)


def _wrong(field: str, message: str) -> InvalidRequest:
    return InvalidRequest.of([FieldError(field, message)])
