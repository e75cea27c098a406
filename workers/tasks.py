"""What RQ jobs run here: a list of names, and behind the one name the job of the cycle (J1, J2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar

import redis
import structlog
from rq.job import Job

from service import jobs
from service.inventory.cycle_stats import CycleStats, add_cycle_stats
from service.inventory.keys import CYCLES_BELL, CYCLES_DIRTY, CYCLES_WAKE
from service.points import reach
from service.settings import Settings
from workers.admission import TROUBLE, CycleResult, Leader
from workers.alarm import Alarm
from workers.bell import Bell

_log = structlog.get_logger(__name__)

#: How long a job that has nothing to do waits for the bell before it ends.
_BELL_SECONDS = 0.1
#: Cycles are counted together, and told at most so often, or at the end of a job that admitted anything.
_STATS_SECONDS = 5.0


class CycleTask:
    """One job: cycles, as long as something new keeps coming and `cycle_job_seconds` have not passed.

    `is_over`: this process should run no more jobs, because somebody else leads or a store is away.
    The ticker's next job makes up for the rest of this one.
    """

    def __init__(self, leader: Leader, client: redis.Redis, *, settings: Settings) -> None:
        self.is_over = False
        self._leader = leader
        self._client = client
        self._settings = settings
        self._bell = Bell(client, CYCLES_BELL)
        self._stats = CycleStats()
        self._counted_at = time.monotonic()
        # The end of a backoff is nobody's change, so nobody else rings for it.
        self._alarm = Alarm(self._wake)

    def run(self) -> None:
        """J1. Never raises because of a store that is away."""
        try:
            self._run()
        except TROUBLE as error:
            _log.warning("cycles_interrupted", error=type(error).__name__)
            self.is_over = True
        if self.is_over:
            self._bell.close()
        self._alarm.set(None if self.is_over else self._leader.seconds_to_wake())

    def _run(self) -> None:
        ends_at = time.monotonic() + self._settings.cycle_job_seconds
        while True:
            # 1. Whoever rings from here on is heard below.
            seen = self._listen()
            # 2. One cycle.
            result = self._timed_cycle()
            if not result.is_leader:
                self.is_over = True
                return
            # 3. Again, if there is anything new and time is left.
            if time.monotonic() >= ends_at:
                break
            if result.admitted == 0:
                self._rest()
            if result.is_settled and self._dirty() == seen and self._bell.wait(_BELL_SECONDS) is None:
                break
        self._tell_stats()
        # 4. From here on wake-ups enqueue a job; those that came before this line are looked for.
        self._client.delete(CYCLES_WAKE)
        reach("worker.wake-deleted")
        if self._dirty() == seen:
            return
        is_first = self._client.set(CYCLES_WAKE, 1, nx=True)
        reach("worker.wake-set")
        if is_first:
            jobs.enqueue_cycles(self._client)
            reach("worker.job-enqueued")

    def _listen(self) -> int:
        """The count of wake-ups as it stands; rings of before are of no use any more."""
        self._bell.forget()
        with self._client.pipeline(transaction=False) as pipe:
            pipe.delete(CYCLES_BELL)
            pipe.get(CYCLES_DIRTY)
            _, dirty = pipe.execute()
        reach("worker.bell-emptied")
        return int(dirty or 0)

    def _rest(self) -> None:
        """J2: submissions that cannot be admitted yet need no cycle each. Who has freed places is not
        kept waiting."""
        ends_at = time.monotonic() + self._settings.cycle_rest_seconds
        while (left := ends_at - time.monotonic()) > 0:
            if self._bell.wait(left) == jobs.FREED:
                return

    def _wake(self) -> None:
        # A ring that is lost costs one tick, like any other.
        with suppress(redis.RedisError):
            jobs.wake_cycles(self._client)
            reach("worker.alarm-rung")

    def _timed_cycle(self) -> CycleResult:
        began_at = time.monotonic()
        result = self._leader.run_cycle()
        now = time.monotonic()
        self._stats.count(
            now - began_at,
            admitted=result.admitted,
            waiting=result.waiting,
            decisions=result.decisions,
        )
        if now - self._counted_at > _STATS_SECONDS:
            self._tell_stats()
        return result

    def _tell_stats(self) -> None:
        """Quiet cycles are not worth a word each."""
        now = time.monotonic()
        if self._stats.admitted or now - self._counted_at > _STATS_SECONDS:
            add_cycle_stats(self._client, self._stats)
            reach("worker.cycles-counted")
            self._stats, self._counted_at = CycleStats(), now

    def _dirty(self) -> int:
        return int(self._client.get(CYCLES_DIRTY) or 0)


class UnknownTask(Exception):
    """A job names a function that is not on the list."""


def allowed_jobs(tasks: Mapping[str, Callable[[], None]]) -> type[Job]:
    """A class of jobs that run what the list says and never import anything: whoever can write to
    Redis could otherwise have any importable function called."""

    class AllowedJob(Job):
        allowed: ClassVar[Mapping[str, Callable[[], None]]] = dict(tasks)

        @property
        def func(self) -> Any:
            name = self.func_name
            if name is None or name not in self.allowed or self.args or self.kwargs:
                raise UnknownTask(f"no task is named {name!r}")
            return self.allowed[name]

    return AllowedJob
