"""Two queues that take from each other, and a steady mix of groups for them, of several priorities."""

from __future__ import annotations

import random
from collections.abc import Iterator

from service.client import Client
from tests.faults.journals import Body, Journal

_COHORT = "rivals"
#: By queue, its nominal quota: all that the gang that runs across the faults leaves.
RIVALS = {"east": 3, "west": 2}
_PRIORITIES = (5, 10)
_SEED = 5


def make_rivals(client: Client) -> None:
    """Each may take all that the other does not use, and gives it back."""
    client.cohorts.create(_COHORT, {})
    for name, gpus in RIVALS.items():
        policy = {"preempt_within": "lower_priority", "reclaim": "any"}
        client.queues.create(name, {"cohort": _COHORT, "nominal_quota": {"H100-80GB": gpus}, **policy})


def small_rivals(journal: Journal) -> Iterator[Body]:
    """None needs more than a queue has of its own, so what has no priority gives way to each."""
    chance = random.Random(_SEED)
    while True:
        made = journal.gang(chance.randint(1, 2), seconds=chance.uniform(0.1, 0.3))
        yield made | {"queue": chance.choice(list(RIVALS)), "priority": chance.choice(_PRIORITIES)}


def long_rival(journal: Journal, queue: str) -> Body:
    """As large as its queue's quota. It runs until `Journal.open`."""
    return journal.long_gang(RIVALS[queue], name="long") | {"queue": queue}


def elastic_rival(journal: Journal, queue: str) -> Body:
    """Of one member to five. It runs until it is cancelled."""
    body = journal.long_gang(5, name="elastic")
    role = {"count": 5, "min_count": 1, "requests": {"gpus": 1}, "command": body.pop("command")}
    del body["members"], body["gpus"]
    return body | {"queue": queue, "roles": [role], "elastic": {"resize": "while_running"}}
