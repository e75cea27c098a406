"""A dispatcher's hold on its pool: a lease, and the one connection that it stands or falls with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog
from sqlalchemy import Connection, Engine

from service.clock import Clock
from service.operations.dispatch import PoolFence
from service.points import reach
from service.settings import Settings
from service.store.dispatcher_lease import LeaseLost, renew_lease, take_lease
from service.store.engine import make_direct_engine
from service.store.inventory_rows import ensure_pool
from workers.launchers.base import Capabilities

_log = structlog.get_logger(__name__)


class PoolLease:
    """Takes and keeps the lease of a pool, which is made if it is not there (D1)."""

    def __init__(
        self,
        engine: Engine,
        pool_name: str,
        *,
        clock: Clock,
        settings: Settings,
        launcher: Capabilities,
        holder: str,
    ) -> None:
        self._engine = engine
        self._direct = make_direct_engine(
            engine.url.render_as_string(hide_password=False),
            application_name="muster dispatcher",
            plans_once=True,
        )
        self._pool_name = pool_name
        self._clock = clock
        self._seconds = settings.lease_seconds
        self._levels = [level.strip() for level in settings.levels.split(",")]
        self._launcher = launcher
        self._holder = holder
        self._conn: Connection | None = None
        self._fence: PoolFence | None = None
        self._renew_at = datetime.min.replace(tzinfo=UTC)

    @property
    def is_held(self) -> bool:
        return self._fence is not None

    @property
    def pool_id(self) -> int | None:
        """None while the lease is not held. From any thread, so what is held is looked at once."""
        fence = self._fence
        return None if fence is None else fence.pool_id

    @property
    def epoch(self) -> int | None:
        fence = self._fence
        return None if fence is None else fence.epoch

    @property
    def fence(self) -> PoolFence:
        """What every transaction goes through. Raises LeaseLost if the lease is not held."""
        if self._fence is None:
            raise LeaseLost(f"pool {self._pool_name} is not held")
        return self._fence

    def hold(self) -> bool:
        """Take the lease if it is free, or keep it; False while somebody else has it."""
        now = self._clock.now()
        if self._fence is not None:
            self.keep(now)
            return True
        conn = self._connect()
        with conn.begin():
            pool_id = ensure_pool(
                conn,
                self._pool_name,
                launcher=self._launcher.kind,
                levels=self._levels,
                can_resize=self._launcher.can_resize,
            )
        reach("dispatcher.pool-ensured")
        with conn.begin():
            epoch = take_lease(conn, pool_id, holder=self._holder, now=now, lease_seconds=self._seconds)
        if epoch is None:
            return False
        reach("dispatcher.lease-taken")
        self._fence = PoolFence(conn, pool_id, epoch)
        self._renew_at = now + timedelta(seconds=self._seconds / 3)
        _log.info("lease_taken", pool=self._pool_name, holder=self._holder, epoch=epoch)
        return True

    def keep(self, now: datetime) -> None:
        """Renew when a third of the lease is over. Raises LeaseLost if somebody else has taken it."""
        if now < self._renew_at:
            return
        with self.fence.conn.begin():
            has_kept = self._renew_on(self.fence.conn, self.fence, now=now)
        reach("dispatcher.lease-kept")
        if not has_kept:
            raise LeaseLost(f"epoch {self.epoch} of pool {self._pool_name} is over")
        self._renew_at = now + timedelta(seconds=self._seconds / 3)

    def renew_apart(self) -> None:
        """Renew from another thread, on a connection of its own."""
        fence = self._fence
        if fence is not None:
            with self._engine.begin() as conn:
                self._renew_on(conn, fence, now=self._clock.now())
            reach("dispatcher.lease-renewed")

    def drop(self) -> None:
        """Close the connection: whoever asks next may have the lease."""
        conn, self._conn, self._fence = self._conn, None, None
        if conn is not None:
            conn.close()

    def _connect(self) -> Connection:
        """One connection that is no pool's: its end ends the lease."""
        if self._conn is None:
            self._conn = self._direct.connect()
        return self._conn

    def _renew_on(self, conn: Connection, fence: PoolFence, *, now: datetime) -> bool:
        return renew_lease(conn, fence.pool_id, epoch=fence.epoch, now=now, lease_seconds=self._seconds)
