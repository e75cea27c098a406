"""The dispatcher of one pool: launches what is admitted, watches it, stops and closes what ends.

It keeps nothing that it could not read again: PostgreSQL says what should be, the launcher what is.
A pass compares the two until there is nothing left to do at this instant.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cached_property

import structlog
from psycopg.errors import DeadlockDetected
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from service.clock import Clock
from service.operations.secret_box import SecretBox, open_box
from service.settings import Settings
from service.store.dispatcher_lease import LeaseLost
from workers.launchers.base import Launcher, LauncherUnreachable
from workers.launching import Pace
from workers.pool_lease import PoolLease
from workers.pool_term import Done, PoolTerm

_log = structlog.get_logger(__name__)

#: A pass that has still not come to rest then goes on in the next one, so that under steady load each
#: pass ends, and its lease is kept by one that moves.
_MOST_ROUNDS = 200
_LONGEST_PASS = timedelta(seconds=2)


class Dispatcher:
    """Serves the pool `pool_name` through `launcher` while it holds the pool's lease. Not thread-safe.

    `ring_leader` is called after each commit that freed places or changed what may be placed; it must
    not raise. Errors of PostgreSQL come out of `pass_once` and leave nothing half done: the next pass
    takes the lease anew.
    """

    def __init__(
        self,
        engine: Engine,
        launcher: Launcher,
        *,
        pool_name: str,
        clock: Clock,
        settings: Settings,
        ring_leader: Callable[[], None],
        holder: str | None = None,
    ) -> None:
        self._launcher = launcher
        self._pool_name = pool_name
        self._clock = clock
        self._settings = settings
        self._ring_leader = ring_leader
        self._pace = Pace()
        self._lease = PoolLease(
            engine,
            pool_name,
            clock=clock,
            settings=settings,
            launcher=launcher.capabilities(),
            holder=holder or f"{socket.gethostname()}:{os.getpid()}",
        )
        self._term: PoolTerm | None = None
        self._is_at_rest = False

    # ------------------------------------------------------------ for its process and for tests
    @property
    def pool_id(self) -> int | None:
        """The pool's id, while this dispatcher holds its lease. From any thread."""
        return self._lease.pool_id

    @property
    def epoch(self) -> int | None:
        """The epoch of the lease that it holds, None if it holds none."""
        return self._lease.epoch

    @property
    def is_at_rest(self) -> bool:
        """The last pass found nothing more to do at its instant."""
        return self._is_at_rest

    def pass_once(self) -> bool:
        """Launch, watch, stop, close and release until nothing is left to do at this instant, or the
        pass has taken long: then `next_due_at` is at once.

        True if anything was done. Without the lease nothing is.
        """
        has_done = False
        self._is_at_rest = False
        ends_at = self._clock.now() + _LONGEST_PASS
        try:
            term = self._hold_lease()
            if term is None:
                return False
            term.begin_pass()
            for _ in range(_MOST_ROUNDS):
                done = self._try_round(term)
                has_done |= done.is_any
                self._is_at_rest = not done.has_more
                if self._is_at_rest or self._clock.now() >= ends_at:
                    break
        except LeaseLost:
            _log.warning("stale_refused", by="store", pool=self._pool_name)
            self.close()
        except Exception:
            self.close()
            raise
        return has_done

    def next_due_at(self) -> datetime | None:
        """When something falls due that nobody will ring for, None if nothing will. It may be over
        already: what fell due during the pass was not looked at in it."""
        if self._term is None or not self._lease.is_held:
            return None
        if not self._is_at_rest:
            return self._clock.now()
        return self._term.next_due_at()

    def live_generations(self) -> set[tuple[int, int, int]]:
        """What the launcher said last: (unit, attempt, generation) of every live member, for the audit."""
        return set() if self._term is None else self._term.live_generations()

    def renew(self) -> None:
        """Keep the lease while a pass takes long: for another thread, on a connection of its own."""
        self._lease.renew_apart()

    def close(self) -> None:
        """Give up the connection, and with it the lease. Members live on."""
        self._lease.drop()

    def _hold_lease(self) -> PoolTerm | None:
        """Take the lease if it is free, or keep it. All that is remembered belongs to one lease."""
        epoch = self._lease.epoch
        if not self._lease.hold():
            return None
        if self._term is None or self._lease.epoch != epoch:
            self._term = PoolTerm(
                self._lease.fence,
                self._launcher,
                pool_name=self._pool_name,
                pace=self._pace,
                box=self._box,
                clock=self._clock,
                settings=self._settings,
                ring_leader=self._ring_leader,
            )
        return self._term

    @cached_property
    def _box(self) -> SecretBox:
        return open_box(key=self._settings.secret_key, data=self._settings.data)

    def _try_round(self, term: PoolTerm) -> Done:
        try:
            now = self._clock.now()
            self._lease.keep(now)
            return term.round(now)
        except LauncherUnreachable as error:
            return term.round_without_launcher(self._clock.now(), error)
        except DeadlockDetected:
            return Done(is_any=True, has_more=True)
        except OperationalError as error:
            if isinstance(error.orig, DeadlockDetected):
                return Done(is_any=True, has_more=True)
            raise
