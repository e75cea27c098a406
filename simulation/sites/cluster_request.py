"""What a cluster file may say, in the words in which the service declares nodes."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, field

from service.domain.resources import MAX_GPUS_PER_MEMBER
from service.wire.amounts import Flavor
from service.wire.group_values import Labels
from service.wire.values import Cpus, MemoryGib, Name, RequestStruct

_MOST = 100_000
Level: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
#: An instant with a zone, or a duration since the first submission: as text, or in seconds.
Moment: TypeAlias = Annotated[str, Meta(max_length=50)] | Annotated[float, Meta(ge=0, le=1e9)]


class PoolEntry(RequestStruct, frozen=True, kw_only=True):
    """`levels`: topology labels, outermost first, without `host`."""

    name: Name
    levels: list[Level] = field(default_factory=list)


class NodesEntry(RequestStruct, frozen=True, kw_only=True):
    """`count` equal nodes: `name-1`, `name-2`, … if there are several. `model`: of each of the `gpus`.
    Not said: 16 CPUs and 128 GiB for each GPU, and of its own memory what the model's name ends in (`-80GB`).
    `domains`: by topology level, how many nodes in a row share a domain."""

    name: Name
    count: Annotated[int, Meta(ge=1, le=_MOST)] = 1
    gpus: Annotated[int, Meta(ge=0, le=MAX_GPUS_PER_MEMBER)] = 0
    model: Flavor = "GPU"
    gpu_memory_gib: MemoryGib | None = None
    cpus: Cpus | None = None
    memory_gib: MemoryGib | None = None
    pool: Name = "default"
    labels: Labels = field(default_factory=dict)
    domains: dict[Level, Annotated[int, Meta(ge=1)]] = field(default_factory=dict)


class OutageEntry(RequestStruct, frozen=True, kw_only=True):
    """Without `up` for good."""

    node: str
    down: Moment
    up: Moment | None = None


class ClusterRequest(RequestStruct, frozen=True, kw_only=True):
    nodes: Annotated[list[NodesEntry], Meta(min_length=1)]
    pools: list[PoolEntry] = field(default_factory=list)
    outages: list[OutageEntry] = field(default_factory=list)
