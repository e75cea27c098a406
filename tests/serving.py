"""The API as a process of its own, on a free port of 127.0.0.1."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests import servers
from tests.servers import Databases
from workers.embedded.valkey import ValkeyServer

_PROGRAM = """
import os
from service.api.server import run
from service.logs import configure_logs
from service.settings import settings_from
settings = settings_from(os.environ)
configure_logs(settings, name="api")
run(settings)
"""


#: Of the first admin, unless another is given.
KEY = "an-admin-key-for-tests"


@dataclass
class Served:
    """A running API. `log` grows while it runs: one object for each line."""

    process: subprocess.Popen[str]
    key: str
    port: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def caller(self, *, key: str | None = None, timeout: float = 20) -> httpx.Client:
        """Who sends requests with the admin's key, or another."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout)

    def lines_of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line.get("event") == event]


@contextmanager
def serving(
    *,
    database_url: str,
    redis_url: str,
    data: Path,
    key: str = KEY,
    settings: Mapping[str, object] | None = None,
) -> Iterator[Served]:
    """Start it, wait until it listens, and end it with SIGTERM. `settings` are further ones, by field."""
    environment = {
        **os.environ,
        "MUSTER_DATABASE_URL": database_url,
        "MUSTER_REDIS_URL": redis_url,
        "MUSTER_DATA": str(data),
        "MUSTER_API_KEY": key,
        "MUSTER_PORT": "0",
        "MUSTER_LOG_FORMAT": "json",
        **{f"MUSTER_{name.upper()}": str(value) for name, value in (settings or {}).items()},
    }
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        cwd=Path(__file__).parent.parent,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    served, is_listening = Served(process, key), threading.Event()
    reader = threading.Thread(target=_read, args=(served, is_listening), daemon=True)
    reader.start()
    try:
        assert is_listening.wait(30), "".join(served.raw)
        assert served.port, "".join(served.raw)
        yield served
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(5)
        assert process.stderr is not None
        process.stderr.close()


def _read(served: Served, is_listening: threading.Event) -> None:
    assert served.process.stderr is not None
    for line in served.process.stderr:
        served.raw.append(line)
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        served.log.append(entry)
        if entry.get("event") == "listening":
            served.port = entry["port"]
            is_listening.set()
    is_listening.set()


@contextmanager
def serving_alone(
    databases: Databases, inventory: ValkeyServer, data: Path, **settings: object
) -> Iterator[Served]:
    """As `serving`, on a fresh database and an emptied inventory; `settings` by field."""
    servers.empty_inventory(inventory)
    with (
        databases.migrated() as database_url,
        serving(database_url=database_url, redis_url=inventory.url, data=data, settings=settings) as served,
    ):
        yield served
