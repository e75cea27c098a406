"""Waiting until another transaction waits."""

from __future__ import annotations

import time

from tests.integration.dispatch.site import Site


def wait_for_lock(site: Site, pid: int) -> None:
    """Until the database backend `pid` waits for a lock."""
    for _ in range(300):
        if site.rows("SELECT pid FROM pg_locks WHERE pid = :pid AND NOT granted", pid=pid):
            return
        time.sleep(0.05)
    raise AssertionError("nothing waits for a lock")
