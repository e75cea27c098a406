"""Small sites for hypothesis: tight enough that groups stand in each other's way."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from service.admission.world import Cohort, Configuration, Node, Queue
from service.domain.queue import Order, Stop
from service.domain.resources import CPUS
from service.domain.shape import RoleShape
from tests.builders import Group, after, cohort, configuration, gang, independent, node, queue, role

MODELS = ("ma", "mb")


@st.composite
def nodes(draw: st.DrawFn, node_id: int) -> Node:
    kinds = draw(st.lists(st.tuples(st.sampled_from(MODELS), st.sampled_from((40, 80))), max_size=4))
    return node(
        node_id,
        devices=kinds,
        cpus=draw(st.integers(1, 12)),
        memory_gib=draw(st.integers(1, 12)),
        pool=draw(st.sampled_from((1, 1, 1, 2))),
        labels={"rack": draw(st.sampled_from(("r1", "r2"))), "zone": draw(st.sampled_from(("z1", "z2")))},
    )


@st.composite
def states(draw: st.DrawFn, base: Node) -> Node:
    """The same machine in some state."""
    devices = tuple(
        replace(device, is_healthy=draw(st.integers(0, 5)) > 0, is_lost=draw(st.integers(0, 5)) == 0)
        for device in base.devices
    )
    is_ready, is_cordoned = draw(st.integers(0, 6)) > 0, draw(st.integers(0, 6)) == 0
    return replace(base, devices=devices, is_ready=is_ready, is_cordoned=is_cordoned)


@st.composite
def later(draw: st.DrawFn, base: Node) -> Node:
    """The same machine as it was, in another state, or with other labels."""
    what = draw(st.sampled_from(("same", "same", "state", "labels")))
    if what == "state":
        return draw(states(base))
    if what == "labels":
        labels = {
            "rack": draw(st.sampled_from(("r1", "r2", "r3"))),
            "zone": draw(st.sampled_from(("z1", "z2"))),
        }
        return replace(base, labels={**base.labels, **labels})
    return base


@st.composite
def queues(draw: st.DrawFn, queue_id: int, cohort_count: int = 0) -> Queue:
    amounts = st.fixed_dictionaries({model: st.integers(0, 8) for model in MODELS})
    some = st.dictionaries(st.sampled_from(MODELS), st.integers(0, 4), max_size=2)
    of = draw(st.none() | st.integers(1, cohort_count)) if cohort_count else None
    nominal = draw(amounts if of else st.none() | amounts)
    if nominal is not None and draw(st.booleans()):
        nominal |= {CPUS: draw(st.integers(0, 20)) * 1000}
    return queue(
        queue_id,
        order=draw(st.sampled_from(Order)),
        stop=draw(st.sampled_from((Stop.NONE, Stop.NONE, Stop.NONE, Stop.HOLD))),
        cohort=of,
        nominal=nominal,
        limit=draw(st.none() | amounts),
        borrowing=draw(some) if of else None,
        lending=draw(some) if of else None,
        weight=draw(st.sampled_from((0.0, 0.5, 1.0, 1.0))),
    )


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[Queue], list[Cohort]]:
    """Queues 1 and 2, in up to two cohorts of which the second may be in the first."""
    count = draw(st.integers(0, 2))
    amounts = st.dictionaries(st.sampled_from(MODELS), st.integers(0, 4), max_size=2)
    cohorts = [
        cohort(
            number,
            parent=1 if number == 2 and draw(st.booleans()) else None,
            nominal=draw(amounts),
            borrowing=draw(amounts),
            lending=draw(amounts),
        )
        for number in range(1, count + 1)
    ]
    return [draw(queues(queue_id, count)) for queue_id in (1, 2)], cohorts


@st.composite
def roles(draw: st.DrawFn, name: str = "worker") -> RoleShape:
    gpus = draw(st.integers(0, 3))
    models = draw(st.sampled_from(((), ("ma",), ("mb", "ma"), ("ma", "mb")))) if gpus else ()
    return role(
        draw(st.integers(1, 3)),
        gpus,
        name=name,
        cpus=draw(st.integers(0, 3)),
        memory_gib=draw(st.integers(0, 3)),
        models=models,
        fallback=draw(st.sampled_from((0, 6))) if len(models) > 1 else 0,
        min_gpu_memory_gib=draw(st.sampled_from((0, 0, 80))) if gpus else 0,
        labels=draw(st.sampled_from((None, None, {"zone": "z1"}))),
    )


@st.composite
def groups(draw: st.DrawFn, group_id: int, queue_count: int = 2) -> Group:
    queue_id, priority = draw(st.integers(1, queue_count)), draw(st.integers(0, 2))
    at, is_held = draw(st.integers(0, 3)), draw(st.integers(0, 7)) == 0
    backoff = draw(st.sampled_from((None, None, None, after(5), after(15))))
    if draw(st.booleans()):
        return independent(
            group_id,
            draw(roles()),
            queue_id=queue_id,
            priority=priority,
            at=at,
            is_held=is_held,
            backoff_until=backoff,
        )
    return gang(
        group_id,
        *(draw(roles(name=f"r{number}")) for number in range(draw(st.integers(1, 2)))),
        queue_id=queue_id,
        priority=priority,
        at=at,
        required=draw(st.sampled_from((None, None, "rack"))),
        is_held=is_held,
        backoff_until=backoff,
        avoided=draw(st.sets(st.integers(1, 3), max_size=1)),
    )


@st.composite
def configurations(draw: st.DrawFn, version: int = 1) -> Configuration:
    machines = [draw(nodes(node_id)) for node_id in range(1, draw(st.integers(1, 4)) + 1)]
    members, cohorts = draw(trees())
    return configuration(
        [draw(states(machine)) for machine in machines],
        members,
        cohorts=cohorts,
        levels=("rack", "host"),
        version=version,
    )


@st.composite
def reconfigured(draw: st.DrawFn, before: Configuration, version: int) -> Configuration:
    """A later configuration: nodes in other states, with other labels, one that came, some that went, other
    queues."""
    machines = {node_id: draw(later(machine)) for node_id, machine in before.nodes.items()}
    if draw(st.integers(0, 3)) == 0:
        machines.pop(draw(st.integers(1, 5)), None)
    if draw(st.integers(0, 3)) == 0:
        new_id = draw(st.integers(1, 5))
        machines[new_id] = draw(nodes(new_id))
    members, cohorts = list(before.queues.values()), list(before.cohorts.values())
    if draw(st.integers(0, 3)) == 0:
        members, cohorts = draw(trees())
    return configuration(
        machines.values(),
        members,
        cohorts=cohorts,
        levels=("rack", "host"),
        version=version,
    )


def waiting(count: int = 6) -> st.SearchStrategy[list[Group]]:
    return st.integers(0, count).flatmap(
        lambda number: st.tuples(*(groups(group_id) for group_id in range(1, number + 1))).map(list)
    )
