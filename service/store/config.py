"""The version of the configuration: raised by every change of queues, pools and nodes (L2)."""

from __future__ import annotations

from sqlalchemy import Connection, text


def raise_config_version(conn: Connection) -> int:
    """Count the version up and keep its row until the transaction ends.

    Call it first: it waits for a cycle that is committing, so what later statements read includes
    that cycle's admissions, and a plan made before cannot commit after (L2).
    """
    return int(conn.execute(text("UPDATE config SET version = version + 1 RETURNING version")).scalar_one())
