"""A large cluster in the books alone: three topology levels, cohorts of queues, nodes mostly full."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Engine, text

from bench.site import Books
from service.clock import Clock
from service.domain.group import GroupSpec, Role
from service.domain.resources import Resources

GPUS = 8
LEVELS = ("block", "rack", "host")
_NODES_OF_RACK, _RACKS_OF_BLOCK = 40, 25
#: GPUs of the group that each node starts with; single ones fill up to the share that is meant to be held.
_LARGE = 6
_HOUR = 3600

#: What the configuration says beyond what `create_queue` takes, for all queues at once.
_COHORTS = """
INSERT INTO cohorts (name, created_at) SELECT 'cohort-' || n, :now FROM generate_series(0, :cohorts - 1) n
"""
_QUEUES = """
UPDATE queues q SET has_quota = true, policy = CAST(:policy AS jsonb), cohort_id = c.id
FROM cohorts c WHERE c.name = 'cohort-' || (q.id % :cohorts)
"""
_QUOTAS = """
INSERT INTO quotas (queue_id, resource, nominal, borrowing)
SELECT id, 'H100-80GB', :nominal, :nominal FROM queues
"""
_POLICY = '{"preempt_within": "lower_priority", "reclaim": "any"}'
_LABELS = """
UPDATE nodes SET labels = labels || jsonb_build_object(
  'rack', 'rack-' || (id / :rack), 'block', 'block-' || (id / (:rack * :block)))
"""
_SOME_ENDED = """
WITH gone AS (
  DELETE FROM attempts WHERE unit_id IN (
    SELECT unit_id FROM attempts WHERE usage->>'H100-80GB' = :gpus
    ORDER BY md5(unit_id::text || :seed) LIMIT :count
  ) RETURNING unit_id, group_id, attempt
), ended AS (
  UPDATE units SET status = 'Succeeded', version = version + 1, ended_at = :now
  FROM gone WHERE units.id = gone.unit_id
)
INSERT INTO events (is_feed, at, kind, group_id, unit_id, attempt)
SELECT true, :now, 'Succeeded', group_id, unit_id, attempt FROM gone
"""
#: Who gives way is gone at once, as if it had run, and waits again.
_GAVE_WAY = """
WITH gone AS (
  DELETE FROM attempts WHERE evict_target = 'Pending' RETURNING unit_id, group_id, attempt
), waiting AS (
  UPDATE units SET status = 'Pending', version = version + 1, attempt = units.attempt + 1, admitted_at = NULL,
    waiting_since = :now
  FROM gone WHERE units.id = gone.unit_id
)
INSERT INTO events (is_feed, at, kind, group_id, unit_id, attempt)
SELECT true, :now, 'Requeued', group_id, unit_id, attempt FROM gone
"""


@dataclass(frozen=True, kw_only=True)
class Size:
    """`pending` groups of `shapes` shapes wait; `held_share` of all GPUs is held before."""

    nodes: int = 10_000
    queues: int = 200
    cohorts: int = 20
    shapes: int = 500
    pending: int = 100_000
    held_share: float = 0.85

    @property
    def singles(self) -> int:
        """Groups of one GPU that run."""
        return round(self.nodes * (GPUS * self.held_share - _LARGE))


class Crowd:
    """The cluster and what is submitted to it. Nothing launches: admitted groups hold their places."""

    def __init__(self, engine: Engine, clock: Clock, size: Size) -> None:
        self._engine = engine
        self._clock = clock
        self._chosen = random.Random(1)
        self.size = size
        self.books = Books(engine, clock, nodes=f"{size.nodes}x{GPUS}xH100-80GB", queues=size.queues)
        self._submitted = 0
        with engine.begin() as conn:
            now = clock.now()
            conn.execute(text("UPDATE pools SET levels = :levels"), {"levels": list(LEVELS)})
            conn.execute(text(_LABELS), {"rack": _NODES_OF_RACK, "block": _RACKS_OF_BLOCK})
            conn.execute(text(_COHORTS), {"cohorts": size.cohorts, "now": now})
            conn.execute(text(_QUEUES), {"cohorts": size.cohorts, "policy": _POLICY})
            conn.execute(text(_QUOTAS), {"nominal": GPUS * size.nodes // size.queues})
            conn.execute(text("UPDATE config SET version = version + 1"))

    def fill(self) -> int:
        """Groups that run and leave one or two GPUs on every node, with time limits of 1 to 24 hours.
        Returns how many they are."""
        large = [self._spec(number, 1, _LARGE, priority=100) for number in range(self.size.nodes)]
        small = [self._spec(number, 1, 1, priority=100) for number in range(self.size.singles)]
        self._submit([*large, *small])
        return len(large) + len(small)

    def crowd(self, count: int) -> None:
        """Submit groups that find no place while nothing ends."""
        self._submit([self._waiting_spec(self._submitted + number) for number in range(count)])

    def submit_one_that_fits(self) -> None:
        """It goes first, to where a group that left a node to others was."""
        self._submit([self._spec(self._submitted, 1, _LARGE, priority=50)])

    def change(self, count: int) -> int:
        """Change so many things, spread over queues and shapes: half of them submissions, a quarter
        cancellations, and a quarter ends of groups that leave a node to others. Returns how many ended. What
        had to give way in the last cycle is gone besides."""
        ended, cancelled = count // 4, count // 4
        self.crowd(count - ended - cancelled)
        self.books.cancel(self._sample_waiting(cancelled))
        with self._engine.begin() as conn:
            values = {
                "count": ended,
                "gpus": str(_LARGE),
                "seed": str(self._submitted),
                "now": self._clock.now(),
            }
            conn.execute(text(_SOME_ENDED), values)
            conn.execute(text(_GAVE_WAY), {"now": values["now"]})
        return ended

    def _sample_waiting(self, count: int) -> list[UUID]:
        return self._chosen.sample(self.books.waiting(), count)

    def _submit(self, specs: Sequence[GroupSpec]) -> None:
        for first in range(0, len(specs), 1000):
            self.books.submit(specs[first : first + 1000])
        self._submitted += len(specs)

    def _waiting_spec(self, number: int) -> GroupSpec:
        """One of `shapes`: more GPUs on a node than any has free, or more members than a rack can seat."""
        shape = number * 7919 % self.size.shapes
        if shape % 2:
            members, gpus, level = 1 + shape % 16, 3 + shape % 6, (None, "rack", "block")[shape // 2 % 3]
        else:
            members, gpus, level = 96 + shape, 1, "rack"
        return self._spec(number, members, gpus, priority=shape % 3 * 10, memory=shape, required=level)

    def _spec(
        self,
        number: int,
        members: int,
        gpus: int,
        *,
        priority: int,
        memory: int = 0,
        required: str | None = None,
    ) -> GroupSpec:
        requests = Resources(gpus=gpus, cpus_milli=1000 * gpus, memory_mib=1024 * gpus + memory)
        return GroupSpec(
            name="bench",
            queue=self.books.queues[number % self.size.queues],
            priority=priority,
            roles=(Role(name="worker", count=members, requests=requests, command=("train",)),),
            topology_required=required,
            time_limit_seconds=_HOUR * (1 + number * 31 % 24),
        )
