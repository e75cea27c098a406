"""The cluster's configuration, kept in a process and read again when its version moves."""

from __future__ import annotations

from sqlalchemy import Connection, text

from service.admission.world import Configuration
from service.store.world_rows import read_configuration


class KnownConfiguration:
    """One for each process. Every change of queues, pools and nodes raises the version (L2)."""

    def __init__(self) -> None:
        self._known: Configuration | None = None

    def get(self, conn: Connection) -> Configuration:
        """As of this transaction."""
        version = conn.execute(text("SELECT version FROM config WHERE id = 1")).scalar_one()
        known = self._known
        if known is None or known.version != version:
            known = self._known = read_configuration(conn)
        return known
