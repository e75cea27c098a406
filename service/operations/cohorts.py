"""Cohorts: made, changed and deleted. Each change raises the configuration's version in its own
transaction, so a plan made before it never commits after it (L2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from sqlalchemy import Connection, Engine

from service.domain.errors import Conflict, FieldError, InvalidRequest
from service.domain.events import Event, Kind
from service.domain.tree import CohortSettings
from service.domain.tree_rules import broken_cohort_rules, broken_depth_rules
from service.operations.read_cohorts import no_cohort
from service.operations.transactions import in_transaction
from service.store import cohorts as store
from service.store.cohorts import CohortRecord
from service.store.config import raise_config_version
from service.store.events import add_events
from service.store.queues import list_queues

NAME_TAKEN = "A cohort of this name is there already."


def create_cohort(engine: Engine, settings: CohortSettings, *, actor: str, now: datetime) -> None:
    """Raises Conflict if the name is taken, and InvalidRequest that names each field that is wrong."""

    def work(conn: Connection) -> None:
        raise_config_version(conn, has_same_nodes=True)
        found = _by_name(conn)
        if settings.name in found:
            raise Conflict(f"Cohort {settings.name}: {NAME_TAKEN}", errors=[FieldError("name", NAME_TAKEN)])
        _check_rules(settings, found)
        ids = {name: cohort.id for name, cohort in found.items()}
        ids |= store.add_cohorts(conn, [settings], now=now)
        store.change_cohorts(conn, [settings], ids=ids)
        add_events(conn, [cohort_event(settings.name, "created", actor=actor, now=now)])

    in_transaction(engine, work)


def change_cohort(
    engine: Engine,
    name: str,
    *,
    change: Callable[[CohortSettings], CohortSettings],
    actor: str,
    now: datetime,
) -> None:
    """Raises NotFound, and InvalidRequest that names each field that would be wrong."""

    def work(conn: Connection) -> None:
        raise_config_version(conn, has_same_nodes=True)
        found = _by_name(conn)
        if name not in found:
            raise no_cohort(name)
        after = change(found[name].settings)
        _check_rules(after, found)
        store.change_cohorts(conn, [after], ids={each: cohort.id for each, cohort in found.items()})
        add_events(conn, [cohort_event(name, "changed", actor=actor, now=now)])

    in_transaction(engine, work)


def delete_cohort(engine: Engine, name: str, *, actor: str, now: datetime) -> None:
    """Raises NotFound, and Conflict while a cohort or queue is in it."""

    def work(conn: Connection) -> None:
        raise_config_version(conn, has_same_nodes=True)
        found = _by_name(conn)
        if name not in found:
            raise no_cohort(name)
        members = [f"cohort {each}" for each, cohort in found.items() if cohort.settings.parent == name]
        members += [f"queue {queue.name}" for queue in list_queues(conn) if queue.settings.cohort == name]
        if members:
            more = f" and {len(members) - 5} more" if len(members) > 5 else ""
            verb = "are" if len(members) > 1 else "is"
            raise Conflict(f"In cohort {name} there {verb} still {', '.join(members[:5])}{more}.")
        store.delete_cohorts(conn, [found[name].id])
        add_events(conn, [cohort_event(name, "deleted", actor=actor, now=now)])

    in_transaction(engine, work)


def cohort_event(name: str, change: str, *, actor: str, now: datetime) -> Event:
    return Event(at=now, kind=Kind.COHORT_CHANGED, actor=actor, data={"cohort": name, "change": change})


def _by_name(conn: Connection) -> dict[str, CohortRecord]:
    return {cohort.name: cohort for cohort in store.list_cohorts(conn)}


def _check_rules(settings: CohortSettings, found: Mapping[str, CohortRecord]) -> None:
    parents = {name: cohort.settings.parent for name, cohort in found.items()}
    parents[settings.name] = settings.parent
    errors = broken_cohort_rules(settings, parents=parents) or broken_depth_rules(parents)
    if errors:
        raise InvalidRequest.of(errors)
