"""What the planner knows: configuration, waiting units and running units, kept between cycles.

The leader loads a World once and then applies what the feed brings. What arrives replaces what is
there (W2), so applying twice changes nothing, and ended units are simply not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from service.domain.node import Place
from service.domain.queue import Order, Quota, Stop
from service.domain.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU. `is_lost`: a process may still sit on it, or its node is down (X5)."""

    index: int
    model: str
    memory_mib: int
    is_healthy: bool = True
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine. `labels` always hold `host`, its own name."""

    id: int
    name: str
    pool_id: int
    cpus_milli: int
    memory_mib: int
    labels: Mapping[str, str]
    devices: tuple[Device, ...] = ()
    is_ready: bool = True
    is_cordoned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes served by one launcher. `levels`: topology labels, outermost first, `host` last."""

    id: int
    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    id: int
    name: str
    order: Order = Order.BEST_EFFORT
    stop: Stop = Stop.NONE
    quota: Quota = field(default_factory=Quota)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Everything that `config.version` counts: replaced as a whole when it moves (L2)."""

    version: int
    queues: Mapping[int, Queue]
    pools: Mapping[int, Pool]
    nodes: Mapping[int, Node]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingUnit:
    """A row that waits: a gang, or members `first_index..last_index` of an independent group.

    Order in a queue: priority (high first), `submitted_at`, `group_id`, `first_index`.
    `avoided_nodes` failed it before: a preference. Not eligible while held or backing off.
    """

    id: int
    group_id: int
    public_id: str
    queue_id: int
    shape_id: int
    priority: int
    submitted_at: datetime
    first_index: int
    last_index: int
    attempt: int
    version: int
    is_held: bool = False
    backoff_until: datetime | None = None
    avoided_nodes: frozenset[int] = frozenset()
    time_limit_seconds: int | None = None
    start_timeout_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningUnit:
    """A unit that holds places (Admitted, Starting, Running, Recovering or Evicting)."""

    id: int
    group_id: int
    public_id: str
    queue_id: int
    shape_id: int
    attempt: int
    revision: int
    places: tuple[Place, ...]
    usage: Mapping[str, int]
    time_limit_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """States that replace what the World has. A unit that changed is in exactly one of `pending`,
    `running` or `gone`; `configuration` is None when its version has not moved."""

    configuration: Configuration | None = None
    shapes: Mapping[int, Shape] = field(default_factory=dict)
    pending: Mapping[int, PendingUnit] = field(default_factory=dict)
    running: Mapping[int, RunningUnit] = field(default_factory=dict)
    gone: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """A reservation that a change ended: the leader releases it in the ledger (R5), which knows its
    places."""

    unit_id: int
    attempt: int
