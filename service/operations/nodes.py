"""Nodes: listed, and taken out of use and back by operators. Each change raises the configuration's
version in its own transaction, so a plan made before it never commits after it (L2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine

from service.domain.errors import NotFound
from service.domain.events import Event, Kind
from service.operations.transactions import in_transaction
from service.store import nodes as store
from service.store.config import raise_config_version
from service.store.events import add_events
from service.store.nodes import NodeFilter, NodeView


def list_nodes(engine: Engine, wanted: NodeFilter) -> tuple[NodeView, ...]:
    with engine.connect() as conn:
        return store.list_nodes(conn, wanted)


def get_node(engine: Engine, name: str) -> NodeView:
    """Raises NotFound."""
    with engine.connect() as conn:
        node = store.find_node(conn, name)
    if node is None:
        raise _no_node(name)
    return node


def cordon(engine: Engine, name: str, *, actor: str, now: datetime) -> NodeView:
    """Nothing more is placed on the node; what runs there goes on, and a drain keeps its deadline.
    Raises NotFound."""
    return _change(
        engine, name, drain_at_of=lambda node: node.drain_at, kind=Kind.NODE_CORDONED, actor=actor, now=now
    )


def uncordon(engine: Engine, name: str, *, actor: str, now: datetime) -> NodeView:
    """End cordon and drain. Raises NotFound."""
    return _change(engine, name, drain_at_of=lambda _: None, kind=Kind.NODE_UNCORDONED, actor=actor, now=now)


def drain(
    engine: Engine, name: str, *, deadline_seconds: float | None, actor: str, now: datetime
) -> NodeView:
    """Cordon the node, and at the deadline (None: never) have its dispatcher evict every unit with a
    member there. Raises NotFound."""
    drain_at = None if deadline_seconds is None else now + timedelta(seconds=deadline_seconds)
    return _change(engine, name, drain_at_of=lambda _: drain_at, kind=Kind.NODE_DRAINED, actor=actor, now=now)


def _change(
    engine: Engine,
    name: str,
    *,
    drain_at_of: Callable[[NodeView], datetime | None],
    kind: Kind,
    actor: str,
    now: datetime,
) -> NodeView:
    def work(conn: Connection) -> NodeView:
        raise_config_version(conn)
        node = store.find_node(conn, name)
        if node is None:
            raise _no_node(name)
        is_cordoned, drain_at = kind is not Kind.NODE_UNCORDONED, drain_at_of(node)
        store.set_cordon(conn, node.id, is_cordoned=is_cordoned, drain_at=drain_at)
        data: dict[str, object] = {"node": name}
        if drain_at is not None:
            data["drain_at"] = drain_at.isoformat()
        add_events(conn, [Event(at=now, kind=kind, actor=actor, node_id=node.id, data=data)])
        return replace(node, is_cordoned=is_cordoned, drain_at=drain_at)

    return in_transaction(engine, work)


def _no_node(name: str) -> NotFound:
    return NotFound(f"There is no node {name}.")
