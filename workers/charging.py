"""Charging in the ticker's process: a thread that takes closed attempts into the ledger of usage."""

from __future__ import annotations

import threading
import time

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.operations.charge import MOST_ATTEMPTS, charge_closed_attempts
from service.points import reach

_log = structlog.get_logger(__name__)

#: Readers add what is not charged yet, so nothing depends on how soon it is.
_PERIOD_SECONDS = 1.0


class Charging:
    """Several may run at once: what one has locked the others leave alone. A store that is away costs
    nothing but time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep_charging, name="charging", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it, a step at the most."""
        self._is_over.set()
        self._thread.join()

    def _keep_charging(self) -> None:
        while not self._is_over.is_set():
            began_at = time.monotonic()
            is_behind = self._charge()
            # As long a rest as the work took: others have the database, too.
            self._is_over.wait(time.monotonic() - began_at if is_behind else _PERIOD_SECONDS)

    def _charge(self) -> bool:
        """Whether there may be more."""
        try:
            charged = charge_closed_attempts(self._engine)
        except SQLAlchemyError as error:
            _log.warning("charging_interrupted", error=type(error).__name__)
            return False
        if charged:
            reach("ticker.usage-charged")
        return charged >= MOST_ATTEMPTS
