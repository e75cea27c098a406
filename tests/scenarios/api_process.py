"""The API as a process of its own, over the servers of the test."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx

from service.settings import Settings
from workers.stack.places import choose_port

READY_SECONDS = 60.0


class ApiProcess:
    """Started at once; `log` collects what it says of itself."""

    def __init__(self, settings: Settings, log: Path) -> None:
        assert settings.api_key is not None
        self.log = log
        self.port = choose_port(0)
        variables = {
            "MUSTER_DATABASE_URL": settings.database_url,
            "MUSTER_REDIS_URL": settings.redis_url,
            "MUSTER_DATA": str(settings.data),
            "MUSTER_API_KEY": settings.api_key,
            "MUSTER_PORT": str(self.port),
        }
        with log.open("a") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "service.cli", "api"],
                env={**os.environ, **variables},
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )
        self._key = settings.api_key
        self._wait()

    def client(self, *, key: str | None = None) -> httpx.Client:
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {key or self._key}"},
            timeout=30,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        with self.client() as client:
            while time.monotonic() < deadline:
                assert self.process.poll() is None, self.log.read_text()
                try:
                    if client.get("/readyz").status_code == 200:
                        return
                except httpx.TransportError:
                    time.sleep(0.05)
        raise AssertionError(f"the API does not answer: {self.log.read_text()}")


@contextmanager
def api_process(settings: Settings, log: Path) -> Iterator[ApiProcess]:
    api = ApiProcess(settings, log)
    try:
        yield api
    finally:
        api.kill()
