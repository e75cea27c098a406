"""Keeps a lease alive while its leader works, from a thread with a connection of its own (L1)."""

from __future__ import annotations

import threading
import time

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.clock import Clock
from service.operations.lead import renew_lease
from service.points import reach

_log = structlog.get_logger(__name__)


class LeaseKeeper:
    """Renews the lease of `epoch` until it is stopped, another leader has it, or a cycle has run for
    longer than its bound: who hangs must not keep the others out.

    Failed renewals are tried again; if they go on failing, the lease runs out by itself.
    """

    def __init__(
        self, engine: Engine, *, epoch: int, clock: Clock, lease_seconds: float, bound_seconds: float
    ) -> None:
        self._engine = engine
        self._epoch = epoch
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._bound_seconds = bound_seconds
        self._busy_since: float | None = None
        self._stopping = threading.Event()
        self._is_lost = False
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)

    @property
    def is_lost(self) -> bool:
        """The lease is somebody else's, or soon will be."""
        return self._is_lost

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Renew no more. A renewal under way is waited for."""
        self._stopping.set()
        self._thread.join()

    def begin_cycle(self) -> None:
        self._busy_since = time.monotonic()

    def end_cycle(self) -> None:
        self._busy_since = None

    def _run(self) -> None:
        while not self._stopping.wait(self._lease_seconds / 3):
            if self._is_overdue():
                _log.error("cycle_over_its_bound", epoch=self._epoch, bound_seconds=self._bound_seconds)
                self._is_lost = True
                return
            if not self._renew():
                _log.warning("lease_lost", epoch=self._epoch)
                self._is_lost = True
                return

    def _is_overdue(self) -> bool:
        since = self._busy_since
        return since is not None and time.monotonic() - since > self._bound_seconds

    def _renew(self) -> bool:
        try:
            with self._engine.connect() as conn:
                is_kept = renew_lease(
                    conn, epoch=self._epoch, now=self._clock.now(), lease_seconds=self._lease_seconds
                )
                reach("worker.lease-renewed")
                return is_kept
        except SQLAlchemyError as error:
            _log.warning("lease_renewal_failed", epoch=self._epoch, error=type(error).__name__)
            return True
