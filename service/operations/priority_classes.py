"""Priority classes: names for priorities, given out by the site. A group keeps the value that its class had
when it was submitted. Each change raises the configuration's version, by which API processes notice it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, Engine

from service.domain.errors import NotFound
from service.domain.events import Event, Kind
from service.operations.transactions import in_transaction
from service.store import priority_classes as store
from service.store.config import raise_config_version
from service.store.events import add_events


def list_priority_classes(engine: Engine) -> dict[str, int]:
    """The priority that each of them stands for, by name."""
    with engine.connect() as conn:
        return store.list_priority_classes(conn)


def get_priority_class(engine: Engine, name: str) -> int:
    """Raises NotFound."""
    found = list_priority_classes(engine)
    if name not in found:
        raise _no_class(name)
    return found[name]


def put_priority_class(engine: Engine, name: str, *, value: int, actor: str, now: datetime) -> None:
    """Make it, or give it another value."""

    def work(conn: Connection) -> None:
        raise_config_version(conn, has_same_nodes=True)
        before = store.list_priority_classes(conn).get(name)
        if before == value:
            return
        store.put_priority_classes(conn, {name: value})
        change = "created" if before is None else "changed"
        add_events(conn, [class_event(name, change, actor=actor, now=now)])

    in_transaction(engine, work)


def delete_priority_class(engine: Engine, name: str, *, actor: str, now: datetime) -> int:
    """Groups that were submitted with it keep their priority. Returns its value. Raises NotFound."""

    def work(conn: Connection) -> int:
        raise_config_version(conn, has_same_nodes=True)
        value = store.list_priority_classes(conn).get(name)
        if value is None:
            raise _no_class(name)
        store.delete_priority_classes(conn, [name])
        add_events(conn, [class_event(name, "deleted", actor=actor, now=now)])
        return value

    return in_transaction(engine, work)


def class_event(name: str, change: str, *, actor: str, now: datetime) -> Event:
    data = {"priority_class": name, "change": change}
    return Event(at=now, kind=Kind.PRIORITY_CLASS_CHANGED, actor=actor, data=data)


def _no_class(name: str) -> NotFound:
    return NotFound(f"There is no priority class {name}.")
