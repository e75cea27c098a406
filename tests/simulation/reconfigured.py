"""One change of a configuration, as operators make them: a queue, a cohort or a node is not what it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from service.admission.world import Cohort, Configuration, Queue
from service.domain.queue import Order, OrderBy, PreemptWithin, Quota, Reclaim, Stop
from tests.builders import node
from tests.simulation.mixed import mixed_queue

Change = Callable[[random.Random, Configuration], Configuration]

#: A queue that comes and goes, in which nothing ever waits.
_GUEST = 99
#: A node that comes and goes.
_SPARE = 98


def _of_a_queue(change: Callable[[random.Random, Queue], Queue]) -> Change:
    def changed(rng: random.Random, config: Configuration) -> Configuration:
        queue = config.queues[rng.randint(1, 5)]
        return replace(config, queues={**config.queues, queue.id: change(rng, queue)})

    return changed


def _of_a_cohort(change: Callable[[random.Random, Cohort], Cohort]) -> Change:
    def changed(rng: random.Random, config: Configuration) -> Configuration:
        cohort = config.cohorts[rng.randint(1, 3)]
        return replace(config, cohorts={**config.cohorts, cohort.id: change(rng, cohort)})

    return changed


def _weighed(rng: random.Random, queue: Queue) -> Queue:
    return replace(queue, policy=replace(queue.policy, weight=rng.choice((0.0, 0.5, 1.0, 4.0))))


def _ordered_by(rng: random.Random, queue: Queue) -> Queue:
    return replace(queue, policy=replace(queue.policy, order_by=rng.choice(list(OrderBy))))


def _limited(rng: random.Random, queue: Queue) -> Queue:
    return replace(queue, policy=replace(queue.policy, user_limit=rng.choice(({}, {"mx": 1}, {"mx": 4}))))


def _entitled(rng: random.Random, queue: Queue) -> Queue:
    policy = replace(
        queue.policy, preempt_within=rng.choice(list(PreemptWithin)), reclaim=rng.choice(list(Reclaim))
    )
    return replace(queue, policy=policy)


def _without_quota(_: random.Random, queue: Queue) -> Queue:
    return replace(queue, cohort_id=None, quota=Quota())


def _other_quota(rng: random.Random, queue: Queue) -> Queue:
    return replace(queue, quota=mixed_queue(rng, queue.id).quota)


def _come_or_gone(_: random.Random, config: Configuration) -> Configuration:
    queues = dict(config.queues)
    if queues.pop(_GUEST, None) is None:
        guest = Queue(id=_GUEST, name="guest", cohort_id=2, quota=Quota(nominal={"mx": 4}))
        queues[_GUEST] = guest
    return replace(config, queues=queues)


def _other_nodes(rng: random.Random, config: Configuration) -> Configuration:
    nodes = dict(config.nodes)
    if nodes.pop(_SPARE, None) is None and rng.random() < 0.7:
        nodes[_SPARE] = node(_SPARE, gpus=4, labels={"rack": "r1"})
    one = nodes[rng.randint(1, 6)]
    return replace(config, nodes={**nodes, one.id: replace(one, is_cordoned=not one.is_cordoned)})


#: By what is other than before.
CHANGES: dict[str, Change] = {
    "weight": _of_a_queue(_weighed),
    "quota": _of_a_queue(_other_quota),
    "stopped": _of_a_queue(lambda _, queue: replace(queue, stop=Stop.HOLD)),
    "name": _of_a_queue(lambda rng, queue: replace(queue, name=f"named-{rng.randint(1, 99)}")),
    "started": _of_a_queue(lambda _, queue: replace(queue, stop=Stop.NONE)),
    "cohort": _of_a_queue(lambda rng, queue: replace(queue, cohort_id=rng.choice((None, 1, 2, 3)))),
    "limits": _of_a_queue(_limited),
    "rights": _of_a_queue(_entitled),
    "no quota": _of_a_queue(_without_quota),
    "order": _of_a_queue(lambda rng, queue: replace(queue, order=rng.choice(list(Order)))),
    "order_by": _of_a_queue(_ordered_by),
    "nodes": _other_nodes,
    "guest": _come_or_gone,
    "weight of a cohort": _of_a_cohort(
        lambda rng, cohort: replace(cohort, weight=rng.choice((0.5, 1.0, 2.0)))
    ),
    "quota of a cohort": _of_a_cohort(
        lambda rng, cohort: replace(cohort, quota=Quota(nominal={"mx": rng.choice((0, 2, 5))}))
    ),
    "lent by a cohort": _of_a_cohort(
        lambda rng, cohort: replace(
            cohort, quota=Quota(nominal={}, lending={"mx": rng.choice((0, 3))}, borrowing={"mx": 2})
        )
    ),
    "name of a cohort": _of_a_cohort(lambda rng, cohort: replace(cohort, name=f"c-{rng.randint(1, 99)}")),
    "parent": lambda rng, config: replace(
        config,
        cohorts={**config.cohorts, 1: replace(config.cohorts[1], parent_id=rng.choice((None, 2, 3)))},
    ),
}
