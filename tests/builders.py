"""Short ways to say what a World holds: nodes, queues, groups that wait and groups that run.

Groups have small ids; group 7 of a table is `group_id=7`, its public id is `g7`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from service.admission.cycle import plan_cycle
from service.admission.elastic.sizes import counts_of
from service.admission.elastic.surplus import freed_by
from service.admission.plan import Admission, Blocker, Plan
from service.admission.resident import World
from service.admission.world import (
    Changes,
    Cohort,
    Configuration,
    Device,
    Node,
    PendingUnit,
    Pool,
    Queue,
    RunningUnit,
)
from service.domain.queue import Order, QueuePolicy, Quota, Stop
from service.domain.reasons import Code, family
from service.domain.resources import Resources
from service.domain.shape import RoleShape, Scheduling, Shape, Sizing, Slice
from service.domain.unit import unit_id

NOW = datetime(2030, 1, 1, tzinfo=UTC)
GIB = 1024


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def node(
    id: int,  # noqa: A002
    gpus: int = 8,
    *,
    model: str = "mx",
    gpu_memory_gib: int = 80,
    cpus: float | None = None,
    memory_gib: int | None = None,
    pool: int = 1,
    labels: Mapping[str, str] | None = None,
    is_ready: bool = True,
    is_cordoned: bool = False,
    unhealthy: Iterable[int] = (),
    lost: Iterable[int] = (),
    devices: Sequence[tuple[str, int]] | None = None,
) -> Node:
    """Node `n<id>`; 16 CPUs and 128 GiB for each GPU unless said otherwise. `devices`: model and
    GPU memory in GiB of each device, for nodes that are not uniform."""
    kinds = [(model, gpu_memory_gib)] * gpus if devices is None else list(devices)
    bad, gone = set(unhealthy), set(lost)
    return Node(
        id=id,
        name=f"n{id}",
        pool_id=pool,
        cpus_milli=int((16 * len(kinds) if cpus is None else cpus) * 1000),
        memory_mib=(128 * len(kinds) if memory_gib is None else memory_gib) * GIB,
        labels={"host": f"n{id}", **(labels or {})},
        devices=tuple(
            Device(
                index=index,
                model=kind,
                memory_mib=memory * GIB,
                is_healthy=index not in bad,
                is_lost=index in gone,
            )
            for index, (kind, memory) in enumerate(kinds)
        ),
        is_ready=is_ready,
        is_cordoned=is_cordoned,
    )


def queue(
    id: int = 1,  # noqa: A002
    *,
    order: Order = Order.BEST_EFFORT,
    stop: Stop = Stop.NONE,
    nominal: Mapping[str, int] | None = None,
    limit: Mapping[str, int] | None = None,
    borrowing: Mapping[str, int] | None = None,
    lending: Mapping[str, int] | None = None,
    cohort: int | None = None,
    **policy: Any,
) -> Queue:
    """Queue `q<id>` without a quota, unless one is given. `policy`: fields of QueuePolicy."""
    quota = Quota(nominal=nominal, limit=limit, borrowing=borrowing or {}, lending=lending or {})
    return Queue(
        id=id,
        name=f"q{id}",
        cohort_id=cohort,
        order=order,
        stop=stop,
        quota=quota,
        policy=QueuePolicy(**policy),
    )


def cohort(
    id: int = 1,  # noqa: A002
    *,
    parent: int | None = None,
    weight: float = 1.0,
    nominal: Mapping[str, int] | None = None,
    borrowing: Mapping[str, int] | None = None,
    lending: Mapping[str, int] | None = None,
) -> Cohort:
    """Cohort `c<id>` with nothing besides what its members have, unless it is given."""
    quota = Quota(nominal=nominal or {}, borrowing=borrowing or {}, lending=lending or {})
    return Cohort(id=id, name=f"c{id}", parent_id=parent, weight=weight, quota=quota)


def role(
    count: int = 1,
    gpus: int = 1,
    *,
    least: int | None = None,
    name: str = "worker",
    cpus: float | None = None,
    memory_gib: float | None = None,
    models: Sequence[str] = (),
    min_gpu_memory_gib: int = 0,
    labels: Mapping[str, str] | None = None,
    slices: tuple[str, int] | None = None,
    fallback: int = 0,
) -> RoleShape:
    """`count` members, or down to `least` of an elastic gang; each asks for 1 CPU and 1 GiB for each of its
    GPUs, at least 1."""
    requests = Resources(
        gpus=gpus,
        cpus_milli=int((max(1, gpus) if cpus is None else cpus) * 1000),
        memory_mib=int((max(1, gpus) if memory_gib is None else memory_gib) * GIB),
    )
    return RoleShape(
        name=name,
        count=count,
        min_count=count if least is None else least,
        requests=requests,
        models=tuple(models),
        min_gpu_memory_mib=min_gpu_memory_gib * GIB,
        node_labels=tuple(sorted((labels or {}).items())),
        slice=None if slices is None else Slice(level=slices[0], size=slices[1]),
        fallback_seconds=fallback,
    )


@dataclass(frozen=True)
class Group:
    """A waiting row and its shape."""

    row: PendingUnit
    shape: Shape


def gang(
    group_id: int,
    *roles: RoleShape,
    queue_id: int = 1,
    priority: int = 0,
    at: float = 0,
    required: str | None = None,
    sizing: Sizing | None = None,
    preferred: str | None = None,
    is_held: bool = False,
    backoff_until: datetime | None = None,
    not_before_at: datetime | None = None,
    open_dependencies: int = 0,
    avoided: Iterable[int] = (),
    attempt: int = 1,
) -> Group:
    """Submitted `at` seconds after NOW, so groups without it are ordered by their ids."""
    shape = Shape(
        scheduling=Scheduling.GANG,
        roles=roles or (role(),),
        required=required,
        preferred=preferred,
        sizing=sizing,
    )
    row = PendingUnit(
        id=unit_id(group_id, 0),
        group_id=group_id,
        public_id=f"g{group_id}",
        queue_id=queue_id,
        shape_id=shape_id(shape),
        priority=priority,
        submitted_at=after(at),
        first_index=0,
        last_index=0,
        attempt=attempt,
        version=1,
        is_held=is_held,
        backoff_until=backoff_until,
        not_before_at=not_before_at,
        open_dependencies=open_dependencies,
        avoided_nodes=frozenset(avoided),
    )
    return Group(row, shape)


def independent(
    group_id: int,
    each: RoleShape,
    *,
    queue_id: int = 1,
    priority: int = 0,
    at: float = 0,
    first: int = 0,
    last: int | None = None,
    is_held: bool = False,
    backoff_until: datetime | None = None,
    avoided: Iterable[int] = (),
) -> Group:
    """Members `first..last` wait, all of them unless said otherwise."""
    shape = Shape(scheduling=Scheduling.INDEPENDENT, roles=(each,))
    end = each.count - 1 if last is None else last
    row = PendingUnit(
        id=unit_id(group_id, end),
        group_id=group_id,
        public_id=f"g{group_id}",
        queue_id=queue_id,
        shape_id=shape_id(shape),
        priority=priority,
        submitted_at=after(at),
        first_index=first,
        last_index=end,
        attempt=1,
        version=1,
        is_held=is_held,
        backoff_until=backoff_until,
        avoided_nodes=frozenset(avoided),
    )
    return Group(row, shape)


_SHAPE_IDS: dict[Shape, int] = {}


def shape_id(shape: Shape) -> int:
    """Equal shapes have one id."""
    return _SHAPE_IDS.setdefault(shape, len(_SHAPE_IDS) + 1)


def configuration(
    nodes: Iterable[Node],
    queues: Iterable[Queue] = (),
    *,
    cohorts: Iterable[Cohort] = (),
    levels: Sequence[str] = ("host",),
    version: int = 1,
) -> Configuration:
    """Cohorts that queues name and nobody describes have nothing of their own."""
    known = list(nodes)
    members = list(queues) or [queue()]
    named = {each.cohort_id: cohort(each.cohort_id) for each in members if each.cohort_id is not None}
    return Configuration(
        version=version,
        queues={each.id: each for each in members},
        pools={
            pool: Pool(id=pool, name=f"p{pool}", levels=tuple(levels), can_resize=True)
            for pool in {each.pool_id for each in known}
        },
        nodes={each.id: each for each in known},
        cohorts=named | {each.id: each for each in cohorts},
    )


def submitted(*groups: Group) -> Changes:
    return Changes(
        shapes={group.row.shape_id: group.shape for group in groups},
        pending={group.row.id: group.row for group in groups},
    )


@dataclass
class Site:
    """A World that is used as the leader uses it, and the plan of its last cycle."""

    world: World = field(default_factory=World.empty)
    plan: Plan | None = None

    def submit(self, *groups: Group) -> None:
        self.world.apply(submitted(*groups))

    def cycle(self, seconds: float = 0) -> Plan:
        """Plan, and admit what the plan says."""
        self.plan = plan_cycle(self.world, after(seconds))
        self.world.admit(self.plan.admissions, after(seconds))
        self.world.resize(self.plan.resizes, after(seconds))
        self.world.keep_claims(self.plan.claims_made, ended=self.plan.claims_ended)
        self.world.keep_pauses(self.plan.pauses_made, dropped=self.plan.pauses_dropped)
        return self.plan

    def unit(self, group_id: int) -> RunningUnit:
        """The gang, which runs."""
        return self.world.running[unit_id(group_id, 0)]

    def size(self, group_id: int) -> tuple[int, ...]:
        """Members of each role that the gang has."""
        unit = self.unit(group_id)
        return counts_of(self.world.shapes[unit.shape_id], unit.places)

    def settle(self, *group_ids: int) -> None:
        """These gangs run: what they added is launched, what they dropped is gone."""
        for group_id in group_ids:
            unit = self.unit(group_id)
            shape = self.world.shapes[unit.shape_id]
            gone = tuple(place for place in unit.places if place.member in unit.dropping)
            freed = freed_by(gone, shape, nodes=self.world.configuration.nodes)
            settled = replace(
                unit,
                is_resizable=shape.sizing is Sizing.WHILE_RUNNING,
                places=tuple(place for place in unit.places if place not in gone),
                usage={name: amount - freed.get(name, 0) for name, amount in unit.usage.items()},
                dropping=(),
                dropping_until=None,
            )
            self.world.apply(Changes(running={unit.id: settled}))

    def end(self, *group_ids: int) -> None:
        """Everything of these groups that runs has ended."""
        gone = {unit.id for unit in self.world.running.values() if unit.group_id in group_ids}
        self.world.apply(Changes(gone=frozenset(gone)))

    def running(self) -> dict[int, dict[str, int]]:
        """Group -> node name -> GPUs."""
        found: dict[int, dict[str, int]] = {}
        for unit in self.world.running.values():
            for place in unit.places:
                name = self.world.configuration.nodes[place.node_id].name
                by_node = found.setdefault(unit.group_id, {})
                by_node[name] = by_node.get(name, 0) + len(place.devices)
        return {group_id: dict(sorted(found[group_id].items())) for group_id in sorted(found)}

    def blockers(self, group_id: int) -> tuple[Blocker, ...]:
        """What the last plan says about the first waiting row of the group."""
        assert self.plan is not None
        for verdict in self.plan.queues.values():
            for waiting in verdict.order:
                if waiting.group_id == group_id:
                    return verdict.verdicts[waiting.verdict]
        raise LookupError(f"group {group_id} does not wait")

    def codes(self, group_id: int) -> list[Code]:
        return [blocker.code for blocker in self.blockers(group_id)]

    def families(self, group_id: int) -> list[str]:
        return [family(code) for code in self.codes(group_id)]

    def blocker(self, group_id: int, code: Code) -> Blocker:
        return next(blocker for blocker in self.blockers(group_id) if blocker.code is code)

    def have(self, blocker: Blocker) -> int | None:
        assert self.plan is not None
        return None if blocker.have_key is None else self.plan.numbers[blocker.have_key]

    def limit(self, blocker: Blocker) -> int | None:
        assert self.plan is not None
        return None if blocker.limit_key is None else self.plan.numbers[blocker.limit_key]

    def order(self, queue_id: int = 1) -> list[int]:
        """Groups in the listed order of the queue."""
        assert self.plan is not None
        return [waiting.group_id for waiting in self.plan.queues[queue_id].order]


def site(
    nodes: Iterable[Node],
    queues: Iterable[Queue] = (),
    *groups: Group,
    cohorts: Iterable[Cohort] = (),
    levels: Sequence[str] = ("host",),
) -> Site:
    made = Site()
    made.world.apply(Changes(configuration=configuration(nodes, queues, cohorts=cohorts, levels=levels)))
    made.submit(*groups)
    return made


def loaded_afresh(world: World) -> World:
    """One that knows what this one knows, and remembers nothing of how it came to be."""
    fresh = World.empty()
    fresh.apply(
        Changes(
            configuration=world.configuration,
            shapes=world.shapes,
            pending=world.pending,
            running=world.running,
            claims=world.claims,
            pauses=world.pauses,
        )
    )
    return fresh


def running(group: Group, admission: Admission) -> RunningUnit:
    """The state of a unit that was admitted so, as a load brings it."""
    return RunningUnit(
        id=admission.unit_id,
        group_id=admission.group_id,
        public_id=group.row.public_id,
        queue_id=admission.queue_id,
        shape_id=admission.shape_id,
        attempt=admission.attempt,
        revision=1,
        places=admission.places,
        usage=admission.usage,
        admitted_at=NOW,
        priority=group.row.priority,
        submitted_at=group.row.submitted_at,
        owner=group.row.owner,
        is_preemptible=group.row.is_preemptible,
        grace_seconds=group.row.grace_seconds,
    )
