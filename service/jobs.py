"""Background jobs by name, and the bells that wake their processes.

The function of a job is named, never imported here: only a worker imports it, from a list of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.resources import files

import redis
from redis.exceptions import NoScriptError
from rq import Queue

from service.inventory.keys import CYCLES_BELL, CYCLES_DIRTY, CYCLES_WAKE, dispatcher_bell
from service.points import reach

#: The queue of the leader's worker, and the one function that it runs.
CYCLES = "cycles"
RUN_CYCLES = "workers.tasks.run_cycles"

#: What the cycles' bell says: places were freed, or anything else.
FREED, LOOK = b"freed", b"look"
#: A bell says "look"; nobody needs to be told that more than a few times.
_BELL_LENGTH = 4
#: A failed job is of no use; what it would have done the next one does.
_FAILURE_SECONDS = 60

_WAKE_SCRIPT = files("service.inventory").joinpath("lua", "wake.lua").read_text()
_WAKE_DIGEST = hashlib.sha1(_WAKE_SCRIPT.encode(), usedforsecurity=False).hexdigest()


def wake_cycles(client: redis.Redis, *, frees: bool = False) -> bool:
    """Have a cycle look at what was just committed. A job is enqueued only if none is on its way;
    True if one was. `frees`: places were given back, which a resting worker does not let wait (J2).
    Raises redis errors: the ticker makes up for a lost wake-up."""
    arguments = (3, CYCLES_DIRTY, CYCLES_BELL, CYCLES_WAKE, _BELL_LENGTH, FREED if frees else LOOK)
    try:
        is_first = client.evalsha(_WAKE_DIGEST, *arguments)
    except NoScriptError:
        is_first = client.eval(_WAKE_SCRIPT, *arguments)
    if is_first:
        reach("wake.marked")
        enqueue_cycles(client)
    return bool(is_first)


def enqueue_cycles(client: redis.Redis) -> None:
    """Enqueue a job without asking whether one is on its way: a worker that was killed in mid-job
    leaves the flag behind. Jobs are JSON and have no timeout: its signal could land between a
    reservation and its commit, and the lease bounds them anyway."""
    queue = Queue(CYCLES, connection=client, serializer="json")
    queue.enqueue(RUN_CYCLES, job_timeout=-1, result_ttl=0, failure_ttl=_FAILURE_SECONDS)


def waiting_jobs(client: redis.Redis) -> int:
    """How many jobs wait in the cycles' queue."""
    return Queue(CYCLES, connection=client, serializer="json").count


def ring_all_dispatchers(client: redis.Redis, pool_ids: Iterable[int]) -> None:
    """Have the dispatchers of these pools look at once, in one round trip. Raises redis errors; they also
    look by themselves."""
    with client.pipeline(transaction=False) as pipe:
        for pool_id in pool_ids:
            pipe.lpush(dispatcher_bell(pool_id), 1)
            pipe.ltrim(dispatcher_bell(pool_id), 0, _BELL_LENGTH - 1)
        pipe.execute()
