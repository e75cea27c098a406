"""Rows whose reservations the ledger refuses again and again.

A Conflict ends the term, and the next one rebuilds the ledger (R3), which mends a ledger that was
wrong. What a ledger refuses that was just rebuilt it would refuse for ever, and nobody else would be
admitted meanwhile; so the next plans are made without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from service.admission.plan import Admission
from service.admission.resident import World

_log = structlog.get_logger(__name__)

#: How long plans are made without a suspect: what has ended since may have made room for it.
RETRY_SECONDS = 60


class _Suspect(NamedTuple):
    """A waiting row as it was planned. Once the row or the configuration is another, it is a new case."""

    row_id: int
    version: int
    config_version: int


class Suspects:
    """What was refused last, and what was refused twice in a row."""

    def __init__(self) -> None:
        self._refused: frozenset[_Suspect] = frozenset()
        self._until: dict[_Suspect, datetime] = {}

    def note_refused(self, admissions: Iterable[Admission], *, config_version: int, now: datetime) -> None:
        """The ledger, rebuilt at the begin of the term, answered Conflict to these."""
        refused = frozenset(_Suspect(each.from_unit_id, each.version, config_version) for each in admissions)
        for suspect in refused & self._refused:
            self._until[suspect] = now + timedelta(seconds=RETRY_SECONDS)
            _log.error("reservation_refused_again", row=suspect.row_id, left_out_seconds=RETRY_SECONDS)
        self._refused = refused

    def note_reserved(self) -> None:
        """All that was planned has its places."""
        self._refused = frozenset()

    def rows(self, world: World, now: datetime) -> frozenset[int]:
        """Waiting rows of the world that are left out of a plan made now."""
        version, pending = world.configuration.version, world.pending
        self._until = {
            suspect: until
            for suspect, until in self._until.items()
            if now < until
            and suspect.config_version == version
            and suspect.row_id in pending
            and pending[suspect.row_id].version == suspect.version
        }
        return frozenset(suspect.row_id for suspect in self._until)
