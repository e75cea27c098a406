"""The worker as shipped, started over a backlog: when the first admission is committed, and its memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from sqlalchemy import Engine, text

from bench.cpu import cpu_seconds
from workers.embedded import child

_LOOK_SECONDS = 0.01
_LONGEST_SECONDS = 120.0
#: A worker that used no CPU worth a word for so long has published its first cycle.
_IDLE_SECONDS, _IDLE_CPU = 0.3, 0.03

_NEWEST = "SELECT /* bench */ coalesce(max(admitted_at), '-infinity')::text FROM attempts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """`first_admission`: seconds from the start of the process until the commit could be seen. `memory`:
    the most bytes that it was seen to hold until its first cycles had ended."""

    first_admission: float
    memory: int


def start_over(database_url: str, redis_url: str, engine: Engine, folder: Path) -> Started:
    """Start a worker, which finds the backlog and something to admit, and end it again. TimeoutError if it
    admits nothing. Its output goes to `folder`."""
    before, began_at = _newest(engine), time.monotonic()
    with _worker(database_url, redis_url, folder) as pid:
        memory = 0
        while _newest(engine) == before:
            memory = max(memory, _memory(pid))
            if time.monotonic() - began_at > _LONGEST_SECONDS:
                raise TimeoutError("the worker admitted nothing")
            time.sleep(_LOOK_SECONDS)
        first_admission = time.monotonic() - began_at
        return Started(first_admission=first_admission, memory=max(memory, _until_idle(pid)))


def _until_idle(pid: int) -> int:
    """The most memory until it rests."""
    memory, used = 0, cpu_seconds(pid)
    looked_at = ends_at = time.monotonic()
    ends_at += _LONGEST_SECONDS
    while time.monotonic() < ends_at:
        time.sleep(_LOOK_SECONDS)
        memory = max(memory, _memory(pid))
        if time.monotonic() - looked_at >= _IDLE_SECONDS:
            looked_at, now = time.monotonic(), cpu_seconds(pid)
            if now - used <= _IDLE_CPU:
                break
            used = now
    return memory


def _memory(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def _newest(engine: Engine) -> str:
    with engine.connect() as conn:
        return str(conn.execute(text(_NEWEST)).scalar_one())


@contextmanager
def _worker(database_url: str, redis_url: str, folder: Path) -> Iterator[int]:
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "service.cli", "worker"],
            env={**os.environ, "MUSTER_DATABASE_URL": database_url, "MUSTER_REDIS_URL": redis_url},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        child.stop(process, signal.SIGTERM, grace_seconds=20.0)
