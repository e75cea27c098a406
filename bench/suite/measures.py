"""How good a run was, from PostgreSQL alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

#: Times in seconds. Useful is what ran to its end: request times runtime.
_WHOLE = """
SELECT extract(epoch FROM max(u.ended_at) - min(g.submitted_at))::float8 AS wall, count(*) AS groups,
  sum((sp.spec #>> '{spec,roles,0,command,2}')::float8 * g.member_count
      * (s.shape #>> '{roles,0,requests,cpus_milli}')::bigint / 1000) AS useful,
  (SELECT sum(nominal) / 1000.0 FROM quotas WHERE resource = 'cpus')::float8 AS nominal,
  (SELECT count(*) FROM closed_attempts WHERE cause = 'Preempted') AS evictions,
  (SELECT count(*) FROM preemptions WHERE outcome = 'Wasted') AS wasted
FROM groups g JOIN units u ON u.group_id = g.id JOIN shapes s ON s.id = g.shape_id
JOIN group_specs sp ON sp.group_id = g.id
"""
#: A later admission counts instead of one that was stopped, as for the peer.
_ADMISSION = """
SELECT g.labels ->> 'class' AS class, count(*) AS groups,
  1000 * avg(extract(epoch FROM c.admitted_at - g.submitted_at))::float8 AS milliseconds
FROM groups g JOIN closed_attempts c ON c.group_id = g.id AND c.outcome = 'Succeeded' GROUP BY 1
"""
_LIVES = """
WITH own AS (
  SELECT o.cohort_id, sum(t.nominal)::bigint AS cpus FROM quotas t JOIN queues o ON o.id = t.queue_id
  WHERE t.resource = 'cpus' GROUP BY 1
)
SELECT q.cohort_id, own.cpus AS cohort_cpus,
  (c.usage ->> 'cpus')::bigint AS cpus, c.admitted_at, c.running_at, c.closed_at,
  COALESCE((SELECT max(m.ended_at) FROM member_ends m WHERE m.unit_id = c.unit_id AND m.attempt = c.attempt),
           c.ended_at) AS ended_at,
  GREATEST(g.submitted_at, lag(c.closed_at) OVER (PARTITION BY c.unit_id ORDER BY c.attempt)) AS waits_since
FROM closed_attempts c JOIN groups g ON g.id = c.group_id JOIN queues q ON q.id = c.queue_id
JOIN own USING (cohort_id)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Seconds from the end of what had to end for a group to start, until its end was in the books, until
    the group was admitted, and until it started."""

    recorded: float
    admitted: float
    started: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """`admission_ms` is a mean, by class."""

    wall_seconds: float
    useful_percent: float
    groups_by_class: Mapping[str, int]
    admission_ms: Mapping[str, float]
    evictions: int
    wasted_evictions: int
    handovers: Sequence[Handover]

    @property
    def groups(self) -> int:
        return sum(self.groups_by_class.values())


def read_measures(conn: Connection) -> Measures:
    whole = conn.execute(text(_WHOLE)).one()
    admission = conn.execute(text(_ADMISSION)).all()
    return Measures(
        wall_seconds=whole.wall,
        useful_percent=100 * whole.useful / (whole.nominal * whole.wall),
        groups_by_class={row[0]: row.groups for row in admission},
        admission_ms={row[0]: row.milliseconds for row in admission},
        evictions=whole.evictions,
        wasted_evictions=whole.wasted,
        handovers=list(_handovers(conn.execute(text(_LIVES)).all())),
    )


def _handovers(lives: Sequence[Any]) -> Iterator[Handover]:
    """Whose place a group takes where places are quota: what has ended in its cohort leaves CPUs, the oldest
    are taken first, and the last of those that a group takes are what it waited for. A group that came only
    after that waited for nobody."""
    by_cohort: dict[int, list[Any]] = {}
    for life in lives:
        by_cohort.setdefault(life.cohort_id, []).append(life)
    for each in by_cohort.values():
        yield from _of_one_cohort(each)


def _of_one_cohort(lives: Iterable[Any]) -> Iterator[Handover]:
    lives = list(lives)
    began = [(life.admitted_at, 1, number) for number, life in enumerate(lives)]
    ended = [(life.closed_at, 0, number) for number, life in enumerate(lives)]
    # Nobody has left what was free from the first.
    freed: deque[tuple[Any, int]] = deque([(None, lives[0].cohort_cpus)])
    for _, is_start, number in sorted(began + ended):
        life = lives[number]
        if not is_start:
            freed.append((life, life.cpus))
            continue
        before = _take(freed, life.cpus)
        if before is None or life.running_at is None or before.ended_at < life.waits_since:
            continue
        yield Handover(
            recorded=_between(before.ended_at, before.closed_at),
            admitted=_between(before.closed_at, life.admitted_at),
            started=_between(before.ended_at, life.running_at),
        )


def _take(freed: deque[tuple[Any, int]], cpus: int) -> Any | None:
    """Take the oldest; whose end came last of them. None if nobody left any of them."""
    last = None
    while cpus:
        life, there = freed.popleft()
        taken = min(cpus, there)
        cpus -= taken
        if there > taken:
            freed.appendleft((life, there - taken))
        if life is not None and (last is None or life.ended_at > last.ended_at):
            last = life
    return last


def _between(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()
