"""The dispatcher's fence, and its claim of what waits for the launcher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from service.store.attempts import LiveAttempt, load_claimable, mark_claimed
from service.store.dispatcher_lease import check_epoch
from service.store.specs import StoredSpec, load_specs

#: Handed to the launcher in one call; the rest follows in the next.
_MOST_AT_ONCE = 1000


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """An attempt that is the launcher's now, with what its members run."""

    attempt: LiveAttempt
    spec: StoredSpec
    claimed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Where nothing can be started: nodes that are not ready, and lost devices by node."""

    down_nodes: frozenset[int] = frozenset()
    lost_devices: frozenset[tuple[int, int]] = frozenset()

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


def claim_attempts(fence: PoolFence, faults: Faults, *, now: datetime) -> list[Claimed]:
    """Claim what waits for the launcher and can be started where it has its places.

    What was claimed before, by whomever, and never reported is claimed anew: to launch is idempotent.
    """
    with fence.transaction() as conn:
        startable = load_claimable(
            conn,
            fence.pool_id,
            down_nodes=faults.down_nodes,
            lost_devices=faults.lost_devices,
            limit=_MOST_AT_ONCE,
        )
        if not startable:
            return []
        mark_claimed(conn, [attempt.unit_id for attempt in startable], epoch=fence.epoch, now=now)
        specs = load_specs(conn, {attempt.group_id for attempt in startable})
    return _claimed(startable, specs, now=now)


def _claimed(
    attempts: Sequence[LiveAttempt], specs: Mapping[int, StoredSpec], *, now: datetime
) -> list[Claimed]:
    return [Claimed(attempt=attempt, spec=specs[attempt.group_id], claimed_at=now) for attempt in attempts]
