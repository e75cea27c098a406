"""One tree of queues, cohorts, priority classes and scheduling in the place of another: only what differs is
written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from sqlalchemy import Connection

from service.domain.events import Event, Kind
from service.domain.scheduling import UNSAID
from service.domain.tree import Tree
from service.operations.cohorts import cohort_event
from service.operations.priority_classes import class_event
from service.operations.queues import drain_stopped, queue_event
from service.store import cohorts as cohort_store
from service.store import priority_classes as class_store
from service.store import queues as queue_store
from service.store.config import write_scheduling
from service.store.events import add_events
from service.store.queues import QueueRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """Where it is written, and by whom. `queues` and `cohort_ids`: those that are there, by name."""

    conn: Connection
    cohort_ids: Mapping[str, int]
    queues: Mapping[str, QueueRecord]
    actor: str
    now: datetime


def write_tree(writing: Writing, before: Tree, *, after: Tree) -> frozenset[int]:
    """Within the caller's transaction, which has raised the version. Returns the pools whose dispatchers
    have members to stop."""
    conn, now = writing.conn, writing.now
    cohorts = _Difference.of(before.cohorts, after.cohorts)
    queues = _Difference.of(before.queues, after.queues)
    classes = _Difference.of(before.priority_classes, after.priority_classes)
    # 1. Cohorts that come, so that everything can name them.
    ids = {**writing.cohort_ids, **cohort_store.add_cohorts(conn, [*cohorts.made.values()], now=now)}
    cohort_store.change_cohorts(conn, [*cohorts.made.values(), *cohorts.changed.values()], ids=ids)
    # 2. Queues, and what has to leave those that are drained.
    queue_store.add_queues(conn, [*queues.made.values()], cohort_ids=ids, now=now)
    known = {writing.queues[name].id: settings for name, settings in queues.changed.items()}
    queue_store.change_queues(conn, known, cohort_ids=ids)
    queue_store.delete_queues(conn, [writing.queues[name].id for name in queues.gone], now=now)
    pool_ids = [
        drain_stopped(conn, writing.queues[name], after=settings, actor=writing.actor, now=now)
        for name, settings in queues.changed.items()
    ]
    # 3. Cohorts that go: nothing is in them any more.
    cohort_store.delete_cohorts(conn, [ids[name] for name in cohorts.gone])
    # 4. Priority classes, and how the whole cluster decides.
    class_store.put_priority_classes(conn, {**classes.made, **classes.changed})
    class_store.delete_priority_classes(conn, classes.gone)
    if before.scheduling != after.scheduling:
        write_scheduling(conn, after.scheduling or UNSAID)
        add_events(conn, [Event(at=now, kind=Kind.SCHEDULING_CHANGED, actor=writing.actor)])
    add_events(
        conn,
        [
            *_events(writing, cohorts, make=cohort_event),
            *_events(writing, queues, make=queue_event),
            *_events(writing, classes, make=class_event),
        ],
    )
    return frozenset().union(*pool_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference(Generic[T]):
    made: Mapping[str, T]
    changed: Mapping[str, T]
    gone: tuple[str, ...]

    @classmethod
    def of(cls, before: Mapping[str, T], after: Mapping[str, T]) -> _Difference[T]:
        return cls(
            made={name: each for name, each in after.items() if name not in before},
            changed={name: each for name, each in after.items() if name in before and each != before[name]},
            gone=tuple(name for name in before if name not in after),
        )


def _events(writing: Writing, difference: _Difference[T], *, make: Callable[..., Event]) -> Iterator[Event]:
    for change, names in (
        ("created", difference.made),
        ("changed", difference.changed),
        ("deleted", difference.gone),
    ):
        for name in names:
            yield make(name, change, actor=writing.actor, now=writing.now)
