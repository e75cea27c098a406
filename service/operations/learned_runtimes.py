"""How long groups like one ran: those of its user in its queue, if enough have ended; else those of all in
the queue; else all. Such figures order and forecast; nobody is promised anything by them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil

from sqlalchemy import Connection

from service.admission.forecast import FEWEST
from service.store.usage_reads import OwnerKey, Runtimes, list_medians, list_runtimes, read_runtimes

#: What was learned is asked for again after so long, and of so many users at most.
_GOOD_FOR = timedelta(seconds=60)
_MOST_OWNERS = 10_000


class Basis(StrEnum):
    """Whose attempts were looked at."""

    USER = "user"
    QUEUE = "queue"
    ALL = "all"


def best_runtimes(
    conn: Connection, *, queue_id: int, owner: tuple[str, str]
) -> tuple[Basis | None, Runtimes]:
    """`owner`: tenant and user. None: too few have ended to say anything.

    `list_medians` follows the same rule for many at once, in SQL: whoever changes one changes both.
    """
    own = read_runtimes(conn, queue_id=queue_id, owner=owner)
    if own.samples >= FEWEST:
        return Basis.USER, own
    of_queue = read_runtimes(conn, queue_id=queue_id)
    if of_queue.samples >= FEWEST:
        return Basis.QUEUE, of_queue
    of_all = read_runtimes(conn)
    return (Basis.ALL if of_all.samples >= FEWEST else None), of_all


def list_best_runtimes(conn: Connection, *, queue_id: int, owner: tuple[str, str]) -> tuple[float, ...]:
    """The same one by one, in seconds, sorted. Empty: too few have ended to say anything."""
    basis, _ = best_runtimes(conn, queue_id=queue_id, owner=owner)
    match basis:
        case Basis.USER:
            return list_runtimes(conn, queue_id=queue_id, owner=owner)
        case Basis.QUEUE:
            return list_runtimes(conn, queue_id=queue_id)
        case Basis.ALL:
            return list_runtimes(conn)
    return ()


class KnownRuntimes:
    """The median by queue, tenant and user, kept in a process for a minute: submissions are many."""

    def __init__(self) -> None:
        self._known: dict[OwnerKey, tuple[datetime, int | None]] = {}

    def expected_seconds(
        self, conn: Connection, keys: Collection[OwnerKey], *, now: datetime
    ) -> dict[OwnerKey, int | None]:
        """Whole seconds, at least one. None: too few have ended."""
        known = {key: each for key in keys if (each := self._known.get(key)) and _is_good(each[0], now)}
        if missing := sorted(set(keys) - known.keys()):
            medians = list_medians(conn, missing, fewest=FEWEST)
            found = {
                key: (now, None if median is None else max(1, ceil(median)))
                for key, median in zip(missing, medians, strict=True)
            }
            if len(self._known) + len(found) > _MOST_OWNERS:
                self._known.clear()
            self._known.update(found)
            known |= found
        return {key: seconds for key, (_, seconds) in known.items()}


def _is_good(found_at: datetime, now: datetime) -> bool:
    return timedelta() <= now - found_at < _GOOD_FOR
