"""What the planner knows: configuration, waiting units and running units, kept between cycles.

The leader loads a World once and then applies what the feed brings. What arrives replaces what is
there (W2), so applying twice changes nothing, and ended units are simply not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from service.admission.past_use import Charge
from service.admission.pauses import Pauses
from service.domain.claim import Claim
from service.domain.node import Place
from service.domain.queue import Order, QueuePolicy, Quota, Stop
from service.domain.scheduling import UNSAID, SchedulingSettings
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
    """Nodes served by one launcher. `levels`: topology labels, outermost first, `host` last. `can_resize`:
    the launcher starts and stops single members of a group that runs."""

    id: int
    name: str
    levels: tuple[str, ...]
    can_resize: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """Queues, and other cohorts, that lend to each other. `quota`: what it has besides that of its members,
    and how much the whole of it borrows from and lends to its parent."""

    id: int
    name: str
    parent_id: int | None = None
    weight: float = 1.0
    quota: Quota = field(default_factory=Quota)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    id: int
    name: str
    cohort_id: int | None = None
    order: Order = Order.BEST_EFFORT
    stop: Stop = Stop.NONE
    quota: Quota = field(default_factory=Quota)
    policy: QueuePolicy = field(default_factory=QueuePolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Everything that `config.version` counts: replaced as a whole when it moves (L2). `nodes_version`: of
    the part that pools and nodes are. `scheduling`: how the whole cluster decides, as far as it is said."""

    version: int
    queues: Mapping[int, Queue]
    pools: Mapping[int, Pool]
    nodes: Mapping[int, Node]
    cohorts: Mapping[int, Cohort] = field(default_factory=dict)
    nodes_version: int = 0
    scheduling: SchedulingSettings = UNSAID


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingUnit:
    """A row that waits: a gang, or members `first_index..last_index` of an independent group.

    Order in a queue: priority (high first), what the queue orders by besides age (`waiting.ranks`),
    `submitted_at`, `group_id`, `first_index`.
    `avoided_nodes` failed it before: a preference. Not eligible while held, backing off, before
    `not_before_at`, or while other groups have to end first (`open_dependencies` of them).
    `expected_seconds`: as long as groups like it ran, by what was known when it was submitted.
    `waiting_since`: since when it could have been admitted, for its guard. `owner` is one user of one
    tenant. `has_never_run`: its last attempt was not Running for a moment. `preempted_at`: when it was
    preempted during the last day.
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
    owner: str = ""
    is_preemptible: bool = True
    grace_seconds: int = 0
    waiting_since: datetime | None = None
    not_before_at: datetime | None = None
    open_dependencies: int = 0
    has_never_run: bool = False
    preempted_at: tuple[datetime, ...] = ()
    expected_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningUnit:
    """A unit that holds places (Admitted, Starting, Running, Recovering or Evicting).

    `evicting_until`: when its members are killed, of one that is Evicting. `preempted_at`: when it was
    preempted during the last day. `resized_at`: when its places last changed. `is_resizable`: it is
    Running, may grow and shrink, and no resize is under way. `dropping`: members that stop, killed at
    `dropping_until`; their places are held until they are gone."""

    id: int
    group_id: int
    public_id: str
    queue_id: int
    shape_id: int
    attempt: int
    revision: int
    places: tuple[Place, ...]
    usage: Mapping[str, int]
    admitted_at: datetime
    time_limit_at: datetime | None = None
    evicting_until: datetime | None = None
    resized_at: datetime | None = None
    preempted_at: tuple[datetime, ...] = ()
    priority: int = 0
    submitted_at: datetime
    owner: str = ""
    is_preemptible: bool = True
    grace_seconds: int = 0
    is_resizable: bool = False
    dropping: tuple[int, ...] = ()
    dropping_until: datetime | None = None
    expected_seconds: int | None = None

    @property
    def likely_ends_at(self) -> datetime | None:
        """When groups like it had ended: whom to expect first, never what anybody is promised."""
        expected = self.expected_seconds
        return None if expected is None else self.admitted_at + timedelta(seconds=expected)

    @property
    def frees_at(self) -> datetime | None:
        """The latest instant at which its places are given back, by what is enforced; None: no bound."""
        if self.evicting_until is not None:
            return self.evicting_until
        limit = self.time_limit_at
        return None if limit is None else limit + timedelta(seconds=self.grace_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """States that replace what the World has. A unit that changed is in exactly one of `pending`,
    `running` or `gone`; `configuration` is None when its version has not moved. Claims, and by queue the
    pauses of guards, are written by the leader alone, so only a full load brings them. `past_use`: all that
    is over and counts, in a full load; `charges`: what closed attempts of these units count."""

    configuration: Configuration | None = None
    shapes: Mapping[int, Shape] = field(default_factory=dict)
    pending: Mapping[int, PendingUnit] = field(default_factory=dict)
    running: Mapping[int, RunningUnit] = field(default_factory=dict)
    gone: frozenset[int] = frozenset()
    claims: Mapping[int, Claim] = field(default_factory=dict)
    pauses: Mapping[int, Pauses] = field(default_factory=dict)
    past_use: tuple[Charge, ...] = ()
    charges: Mapping[tuple[int, int], tuple[Charge, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """A reservation that a change ended: the leader releases it in the ledger (R5), which knows its
    places. `places`: only these of an attempt that goes on, which are released by name (R1)."""

    unit_id: int
    attempt: int
    shape_id: int
    places: tuple[Place, ...] | None = None
