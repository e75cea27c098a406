"""Real worker and ticker processes for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_CODE = """
import os
from service.logs import configure_logs
from service.settings import settings_from
from workers.{kind} import run
settings = settings_from(os.environ)
configure_logs(settings, name="{kind}")
run(settings)
"""
_ROOT = Path(__file__).parent.parent.parent.parent


@contextmanager
def running(kind: str, **settings: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process of `kind` (worker, ticker) with these settings, killed at the end if it still runs."""
    environment = {f"MUSTER_{name.upper()}": str(value) for name, value in settings.items()}
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE.format(kind=kind)],
        cwd=_ROOT,
        env={**os.environ, **environment, "MUSTER_LOG_FORMAT": "text"},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def stop(process: subprocess.Popen[bytes], *, seconds: float = 10.0) -> int:
    """SIGTERM; the exit code."""
    process.send_signal(signal.SIGTERM)
    return process.wait(seconds)


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return times.user + times.system


def wait_until(holds: Callable[[], object], *, seconds: float = 20.0) -> None:
    """Until `holds()` is true; it fails after `seconds`."""
    ends_at = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends_at, "it did not come to be in time"
        time.sleep(0.01)
