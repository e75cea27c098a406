"""The worker: one long-lived RQ process that runs cycles in itself, so that the World stays warm.

Who leads is decided by Muster's own lease and never by RQ; a standby does not listen on the queue.
"""

from __future__ import annotations

import threading
from types import FrameType

import redis
import structlog
from redis.client import Pipeline
from rq import Queue, SimpleWorker
from rq.job import Job
from rq.timeouts import BaseDeathPenalty

from service import jobs
from service.clock import SystemClock
from service.inventory.client import make_client
from service.points import reach
from service.settings import Settings
from workers.admission import TROUBLE, Leader
from workers.bootstrap import backoff, process_name, stop_on_signals
from workers.heartbeat import Heartbeat
from workers.tasks import CycleTask, allowed_jobs

_log = structlog.get_logger(__name__)

#: RQ waits for a job for 15 s less, and notices a lost connection 10 s after that at the latest.
_WORKER_TTL_SECONDS = 20
#: How often a standby looks whether the lease is free.
_STANDBY_SECONDS = 1.0


def run(settings: Settings) -> None:
    """Lead when possible, until SIGTERM or SIGINT. While a store is away it waits, longer each time,
    and goes on by itself."""
    stop = threading.Event()
    stop_on_signals(stop)
    heartbeat = Heartbeat(settings, "worker")
    heartbeat.start()
    client = make_client(settings.redis_url)
    leader = Leader(
        settings.database_url,
        client,
        clock=SystemClock(),
        settings=settings,
        name=process_name("worker"),
        keeps_lease=True,
    )
    try:
        _lead_when_possible(leader, settings, stop=stop, heartbeat=heartbeat)
    finally:
        heartbeat.end()
        leader.close()
        client.close()


def _lead_when_possible(
    leader: Leader, settings: Settings, *, stop: threading.Event, heartbeat: Heartbeat
) -> None:
    waits = backoff()
    while not stop.is_set():
        try:
            has_led = leader.hold_lease() and _listen(leader, settings, stop=stop, heartbeat=heartbeat)
        except TROUBLE as error:
            seconds = next(waits)
            _log.warning("store_away", error=type(error).__name__, next_try_seconds=seconds)
            heartbeat.beat(f"waits for a store ({type(error).__name__})", is_well=False)
            stop.wait(seconds)
            continue
        if has_led:
            waits = backoff()
        else:
            heartbeat.beat("stands by")
        stop.wait(_STANDBY_SECONDS)


def _listen(leader: Leader, settings: Settings, *, stop: threading.Event, heartbeat: Heartbeat) -> bool:
    """Run jobs until told to stop, or to leave. True if any was run. RQ has a client of its own, whose
    timeouts it changes."""
    rq_client = make_client(settings.redis_url)
    client = make_client(settings.redis_url)
    try:
        task = CycleTask(leader, client, settings=settings)
        worker = CycleWorker(task, rq_client, stop=stop, heartbeat=heartbeat)
        # Whatever happened while nobody led: look at once.
        jobs.enqueue_cycles(client)
        reach("worker.first-job-enqueued")
        return worker.work(logging_level="WARNING")
    finally:
        stop_on_signals(stop)
        rq_client.close()
        client.close()


class _NoDeathPenalty(BaseDeathPenalty):
    """RQ's timeouts are signals that could land between a reservation and its commit."""

    def setup_death_penalty(self) -> None:
        pass

    def cancel_death_penalty(self) -> None:
        pass


class CycleWorker(SimpleWorker):
    """RQ's worker that runs jobs in its own process. It knows one task, and ends when that is over, or
    on SIGTERM and SIGINT: at once if idle, else after the job."""

    death_penalty_class = _NoDeathPenalty
    max_connection_wait_time = 2.0

    def __init__(
        self, task: CycleTask, connection: redis.Redis, *, stop: threading.Event, heartbeat: Heartbeat
    ) -> None:
        super().__init__(
            [jobs.CYCLES],
            connection=connection,
            serializer="json",
            job_class=allowed_jobs({jobs.RUN_CYCLES: task.run}),
            worker_ttl=_WORKER_TTL_SECONDS,
        )
        self._task = task
        self._stop = stop
        self._heartbeat = heartbeat

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """RQ calls this before it waits for a job, and around each."""
        super().heartbeat(timeout, pipeline)
        self._heartbeat.beat("leads")

    def execute_job(self, job: Job, queue: Queue) -> None:
        super().execute_job(job, queue)
        if self._task.is_over:
            self._stop_requested = True

    def subscribe(self) -> None:
        """RQ's workers take commands from a channel of Redis, in a thread that does not survive a broken
        connection. This one takes none: who leads, and until when, is not for Redis to say."""

    def _install_signal_handlers(self) -> None:
        super()._install_signal_handlers()
        # A signal that came before, while the lease was taken, is not sent again.
        self._stop_requested = self._stop_requested or self._stop.is_set()

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        self._stop.set()
        # RQ raises an exception, which some code that it happens to interrupt may swallow.
        self._stop_requested = True
        super().request_stop(signum, frame)
