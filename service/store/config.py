"""The version of the configuration: raised by every change of queues, pools and nodes (L2)."""

from __future__ import annotations

from sqlalchemy import Connection, text


def raise_config_version(conn: Connection, *, has_same_nodes: bool = False) -> None:
    """Count the version up and keep its row until the transaction ends. `has_same_nodes`: nothing about
    nodes, devices and pools changes with it, so nobody has to read them again.

    Call it first: it waits for a cycle that is committing, so what later statements read includes
    that cycle's admissions, and a plan made before cannot commit after (L2).
    """
    conn.execute(_RAISE, {"more": int(has_same_nodes)})


_RAISE = text("UPDATE config SET version = version + 1, with_same_nodes = with_same_nodes + :more")
