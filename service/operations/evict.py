"""Evict: end the attempts of units that hold places. The dispatcher stops their members, and their
places are free once every one is gone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Connection, text

from service.domain.status import LIVE, Cause, Status
from service.operations.unit_events import evicting_event
from service.store.attempts import PresentUnit, lock_units
from service.store.closing import EvictingUnit, set_cancelling, set_evicting
from service.store.events import add_events


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicted:
    """Units whose eviction this transaction decided, and the pools whose dispatchers to ring after
    its commit."""

    unit_ids: tuple[int, ...] = ()
    pool_ids: frozenset[int] = frozenset()


def evict_units(
    conn: Connection,
    unit_ids: Collection[int],
    *,
    target: Status,
    cause: Cause,
    message: str,
    now: datetime,
    actor: str = "muster",
    backoff_seconds: int | None = None,
) -> Evicted:
    """Evict those of these units that hold places, within the caller's transaction.

    The target is Pending (queued again as the next attempt, at once unless `backoff_seconds`), Failed
    or Cancelled. A unit that is Evicting already keeps its target, unless this is a cancel. Units that
    hold nothing are left alone. Locks as W4 says; the caller rings the dispatchers of `pool_ids`.
    """
    present = _lock_by_key(conn, unit_ids)
    fresh = [unit for unit, row in present.items() if row.status in LIVE and row.evict_target is None]
    again = [
        unit
        for unit, row in present.items()
        if row.evict_target not in (None, Status.CANCELLED.value) and target is Status.CANCELLED
    ]
    if fresh:
        eviction = partial(
            EvictingUnit, target=target, cause=cause, message=message, backoff_seconds=backoff_seconds
        )
        set_evicting(conn, [eviction(unit_id=unit) for unit in fresh], now=now)
    if again:
        set_cancelling(conn, again, message=message)
    changed = [present[unit] for unit in sorted((*fresh, *again))]
    if changed:
        event = partial(evicting_event, target=target, cause=cause, message=message, at=now, actor=actor)
        add_events(conn, (event(row.unit_id, row.group_id, attempt=row.attempt) for row in changed))
    return Evicted(
        unit_ids=tuple(row.unit_id for row in changed), pool_ids=frozenset(row.pool_id for row in changed)
    )


def _lock_by_key(conn: Connection, unit_ids: Collection[int]) -> dict[int, PresentUnit]:
    """Rows by key, whatever a plan that was made while the tables were small would do."""
    conn.execute(text("SELECT set_config('enable_seqscan', 'off', true)"))
    return lock_units(conn, unit_ids)
