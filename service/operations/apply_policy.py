"""Queues, cohorts, priority classes and how the cluster decides, all at once: compared, checked as a whole,
and changed in one transaction, which raises the configuration's version (L2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, Engine

from service.domain.errors import Conflict, FieldError
from service.domain.scheduling import SchedulingSettings
from service.domain.tree import Named, Tree, Wanted
from service.domain.tree_rules import check_tree
from service.domain.wording import unended_groups
from service.operations.transactions import in_transaction
from service.operations.write_policy import Writing, write_tree
from service.store.cohorts import list_cohorts
from service.store.config import raise_config_version, read_scheduling
from service.store.priority_classes import list_priority_classes
from service.store.queues import QueueRecord, count_unended_groups, list_queues, lock_queues


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Everything as it was and as it is now, or, after a dry run, as it would be. `pool_ids`: whose
    dispatchers have members to stop."""

    before: Tree
    after: Tree
    pool_ids: frozenset[int] = frozenset()


def get_policy(engine: Engine) -> Tree:
    """All that there is, but queues that are on their way out."""
    with engine.connect() as conn:
        return _read(conn).tree


def apply_policy(engine: Engine, wanted: Wanted, *, is_dry_run: bool, actor: str, now: datetime) -> Applied:
    """Raises InvalidRequest that names every field that would be wrong, and Conflict if a queue that is to
    go has groups that have not ended."""
    with engine.connect() as conn:
        planned = _plan(conn, wanted)
    if is_dry_run or planned.before == planned.after:
        return planned

    def work(conn: Connection) -> Applied:
        raise_config_version(conn, has_same_nodes=True)
        applied = _plan(conn, wanted, is_locked=True)
        stored = _read(conn)
        writing = Writing(conn=conn, cohort_ids=stored.cohort_ids, queues=stored.queues, actor=actor, now=now)
        return replace(applied, pool_ids=write_tree(writing, applied.before, after=applied.after))

    return in_transaction(engine, work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """`leaving`: queues that are on their way out."""

    tree: Tree
    cohort_ids: Mapping[str, int]
    queues: Mapping[str, QueueRecord]
    leaving: Mapping[str, QueueRecord]


def _read(conn: Connection) -> _Stored:
    cohorts, queues = list_cohorts(conn), list_queues(conn)
    staying = {queue.name: queue for queue in queues if queue.deleting_at is None}
    return _Stored(
        tree=Tree(
            cohorts={cohort.name: cohort.settings for cohort in cohorts},
            queues={name: queue.settings for name, queue in staying.items()},
            priority_classes=list_priority_classes(conn),
            scheduling=_as_kept(read_scheduling(conn)),
        ),
        cohort_ids={cohort.name: cohort.id for cohort in cohorts},
        queues=staying,
        leaving={queue.name: queue for queue in queues if queue.deleting_at is not None},
    )


def _plan(conn: Connection, wanted: Wanted, *, is_locked: bool = False) -> Applied:
    stored = _read(conn)
    # 1. What there would be.
    before, said = stored.tree, wanted.tree
    after = replace(said, scheduling=_as_kept(said.scheduling))
    if not wanted.is_all:
        after = Tree(
            cohorts={**before.cohorts, **said.cohorts},
            queues={**before.queues, **said.queues},
            priority_classes={**before.priority_classes, **said.priority_classes},
            scheduling=before.scheduling if said.scheduling is None else after.scheduling,
        )
    # 2. Whether that keeps to the rules. A queue that is on its way out still needs its cohort.
    leaving = {name: queue.settings for name, queue in stored.leaving.items()}
    check_tree(replace(after, queues={**leaving, **after.queues}), wanted)
    # 3. Whether what goes may go.
    gone = [queue for name, queue in stored.queues.items() if name not in after.queues]
    if is_locked:
        lock_queues(conn, [queue.id for queue in gone])
    conflicts = [*_leaving_again(wanted, stored), *_still_used(conn, gone)]
    if conflicts:
        raise Conflict(conflicts[0].message, errors=conflicts)
    return Applied(before=before, after=after)


def _as_kept(scheduling: SchedulingSettings | None) -> SchedulingSettings | None:
    """To say nothing of anything is to say nothing."""
    return scheduling if scheduling is not None and scheduling.said else None


def _leaving_again(wanted: Wanted, stored: _Stored) -> Iterator[FieldError]:
    for name in sorted(stored.leaving.keys() & wanted.tree.queues.keys()):
        place = wanted.place(Named("queue", name))
        yield FieldError(f"{place}.name", f"Queue {name} is being deleted; wait until it is gone.")


def _still_used(conn: Connection, gone: list[QueueRecord]) -> Iterator[FieldError]:
    for queue in gone:
        if count := count_unended_groups(conn, queue.id):
            yield FieldError(f"queue {queue.name}", f"Queue {queue.name} has {unended_groups(count)}.")
