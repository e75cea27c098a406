"""The row of the whole configuration: its version, raised by every change of queues, pools and nodes (L2),
and how the cluster decides."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, select, text, update

from service.domain.scheduling import SchedulingSettings
from service.store.models.configuration import config


def raise_config_version(conn: Connection, *, has_same_nodes: bool = False) -> None:
    """Count the version up and keep its row until the transaction ends. `has_same_nodes`: nothing about
    nodes, devices and pools changes with it, so nobody has to read them again.

    Call it first: it waits for a cycle that is committing, so what later statements read includes
    that cycle's admissions, and a plan made before cannot commit after (L2).
    """
    conn.execute(_RAISE, {"more": int(has_same_nodes)})


_RAISE = text("UPDATE config SET version = version + 1, with_same_nodes = with_same_nodes + :more")


def read_scheduling(conn: Connection) -> SchedulingSettings:
    """What admins have said."""
    said = conn.execute(select(config.c.scheduling)).scalar_one()
    return msgspec.convert(said, SchedulingSettings)


def write_scheduling(conn: Connection, scheduling: SchedulingSettings) -> None:
    """In the place of what was said before, within a transaction that has raised the version."""
    conn.execute(update(config).values(scheduling=scheduling.said))
