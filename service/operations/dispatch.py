"""The dispatcher's fence, and its claim of what waits for the launcher."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from service.domain.status import Status
from service.store.attempts import (
    CLAIMED,
    LAUNCHED,
    WAITING,
    LiveAttempt,
    PresentUnit,
    present_units,
    send_locks,
)
from service.store.dispatcher_lease import LeaseLost, check_epoch, require_epoch, send_epoch
from service.store.pipe import one_trip
from service.store.specs import StoredSpec
from service.store.work import claim


@dataclass(frozen=True, slots=True)
class PoolFence:
    """Whose word counts for a pool: every transaction that a dispatcher writes goes through here."""

    conn: Connection
    pool_id: int
    epoch: int

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """D1: a transaction that holds the epoch. Raises LeaseLost before anything is written."""
        with self.conn.begin():
            check_epoch(self.conn, self.pool_id, epoch=self.epoch)
            yield self.conn

    def lock_units(self, unit_ids: Collection[int]) -> dict[int, PresentUnit]:
        """D1 and W4 in one round trip of an open transaction: the epoch is held, and nobody changes these
        units until its end. Raises LeaseLost."""
        with one_trip(self.conn) as pipe:
            epoch = send_epoch(pipe, self.pool_id)
            locked = send_locks(pipe, unit_ids)
        require_epoch(epoch, self.pool_id, epoch=self.epoch)
        return present_units(locked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """An attempt that is the launcher's now, with what its members run."""

    attempt: LiveAttempt
    spec: StoredSpec
    claimed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Where nothing can be started: nodes that are not ready, and lost devices by node. False if there
    are none."""

    down_nodes: frozenset[int] = frozenset()
    lost_devices: frozenset[tuple[int, int]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.down_nodes or self.lost_devices)

    def nodes_of(self, attempt: LiveAttempt) -> tuple[int, ...]:
        """Nodes of the attempt's places on which nothing can be started now."""
        return tuple(
            sorted(
                {
                    place.node_id
                    for place in attempt.places
                    if place.node_id in self.down_nodes
                    or any((place.node_id, device) in self.lost_devices for device in place.devices)
                }
            )
        )

    def is_startable(self, attempt: LiveAttempt) -> bool:
        """It waits for the launcher, or was claimed and never reported, and has no place on any of them. Or
        members wait that were added to it while it runs: where they cannot start they are refused."""
        if attempt.evict_target is not None:
            return False
        if attempt.dispatch == LAUNCHED:
            return bool(attempt.adding) and attempt.status is Status.RUNNING
        return attempt.dispatch in (WAITING, CLAIMED) and not (self and self.nodes_of(attempt))


def claim_attempts(fence: PoolFence, attempts: Sequence[LiveAttempt], *, now: datetime) -> list[Claimed]:
    """Claim those of these attempts that still wait for the launcher. Raises LeaseLost.

    What was claimed before, by whomever, and never reported is claimed anew: to launch is idempotent.
    """
    claimed = claim(
        fence.conn, fence.pool_id, epoch=fence.epoch, keys=[attempt.key for attempt in attempts], now=now
    )
    if claimed is None:
        raise LeaseLost(f"epoch {fence.epoch} of pool {fence.pool_id} is over")
    return [Claimed(attempt=attempt, spec=spec, claimed_at=now) for attempt, spec in claimed]
