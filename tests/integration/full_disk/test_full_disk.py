"""PostgreSQL's disk is full for real: for its tables, and for its log, without which it cannot commit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import redis
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from service.inventory.client import make_client
from service.inventory.ledger import Ledger
from service.store.engine import make_engine
from service.store.migrate import upgrade
from tests.integration.leader.processes import running, stop, wait_until
from tests.integration.leader.site import Site
from tests.serving import Served, serving

_ROOT = Path(__file__).parent.parent.parent.parent
_SIZE = "160m"
READY_SECONDS = 10.0

pytestmark = [pytest.mark.timeout(120)]


def can_mount() -> bool:
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "small", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class SmallDisk:
    """`fill` and `free` the disk under a PostgreSQL."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self.url = self._hear()
        self._filler = Path(f"/proc/{process.pid}/root{folder}/disk/filler")

    def fill(self) -> None:
        with suppress(OSError), self._filler.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        """There is room again; as after an operator's help, the server runs."""
        self._filler.unlink()
        assert self._process.stdin is not None
        self._process.stdin.write("run\n")
        self._process.stdin.flush()
        assert self._hear() == "runs"

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the server does not start"
        return line


@pytest.fixture
def disk(server_folder: Path) -> Iterator[SmallDisk]:
    if not can_mount():
        pytest.skip("only root can give a server a small disk, and only where it may mount")
    command = [sys.executable, "-m", "tests.integration.full_disk.small_disk", str(server_folder), _SIZE]
    with subprocess.Popen(
        ["unshare", "--mount", *command], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:  # at the end its input ends, and then so does it
        disk = SmallDisk(process, server_folder)
        upgrade(disk.url)
        yield disk


@pytest.fixture
def engine(disk: SmallDisk) -> Iterator[Engine]:
    engine = make_engine(disk.url)
    yield engine
    engine.dispose()


@pytest.fixture
def served(disk: SmallDisk, redis_url: str, tmp_path: Path) -> Iterator[Served]:
    with serving(database_url=disk.url, redis_url=redis_url, data=tmp_path) as served:
        yield served


@pytest.fixture
def api(served: Served) -> Iterator[httpx.Client]:
    with served.caller(timeout=60) as client:
        yield client


@contextmanager
def leading(disk: SmallDisk, redis_url: str) -> Iterator[None]:
    settings = {"database_url": disk.url, "redis_url": redis_url, "tick_seconds": 0.2}
    with running("worker", **settings) as worker, running("ticker", **settings) as ticker:
        yield
        assert (stop(worker), stop(ticker)) == (0, 0)


def batch(count: int = 100) -> dict[str, object]:
    group = {"name": "g", "members": 1, "gpus": 1, "command": ["true"], "env": {"FILL": "x" * 2000}}
    return {"groups": [group] * count}


def submit(api: httpx.Client, key: str) -> httpx.Response:
    return api.post("/v1/groups/batch", json=batch(), headers={"Idempotency-Key": key})


@pytest.mark.parametrize("what", ["tables", "log"])
def test_a_full_disk_is_told_and_nothing_is_half_done(
    disk: SmallDisk, engine: Engine, api: httpx.Client, redis_url: str, served: Served, what: str
) -> None:
    site = Site(engine)
    with leading(disk, redis_url), make_client(redis_url) as client:
        assert submit(api, str(uuid.uuid4())).status_code == 201
        wait_until(lambda: held_in_both(site, client) == 16)

        # 1. No room: for rows at first; the log has room left in its last file, unless that is over.
        disk.fill()
        if what == "log":
            # What is written here needs no room anywhere else.
            message = "SELECT pg_logical_emit_message(true, 'fill', 'it')"
            with suppress(SQLAlchemyError), engine.begin() as conn:
                conn.execute(text(f"{message}; SELECT pg_switch_wal(); {message}"))
        made, refused, key = submit_until_refused(api)
        assert refused.headers["retry-after"]
        assert refused.json()["type"] == "/problems/store-unavailable"
        assert "PostgreSQL" in refused.json()["detail"]
        if what == "tables":
            assert "no room" in refused.json()["detail"]
        assert api.get("/healthz").status_code == 200
        if what == "log":
            # PostgreSQL ends itself, and finds no room to start again.
            wait_until(lambda: api.get("/readyz").status_code == 503)

        # 2. Room again: it goes on by itself, and the one that was refused can be repeated.
        disk.free()
        engine.dispose()
        free_at = time.monotonic()
        wait_until(lambda: api.get("/readyz").status_code == 200, seconds=READY_SECONDS)
        assert count(site, "groups") == 100 * (1 + made)
        assert count(site, "units") == 100 * (1 + made)
        wait_until(lambda: submit(api, key).status_code == 201, seconds=READY_SECONDS)
        for unit in [row.unit_id for row in site.rows("SELECT unit_id FROM attempts")]:
            site.end(unit)
        wait_until(lambda: count(site, "attempts") == 16 and held_in_both(site, client) == 16)
        assert time.monotonic() - free_at < 2 * READY_SECONDS
    assert count(site, "groups") == 100 * (2 + made)
    assert site.rows("SELECT count(*) FROM events WHERE kind = 'Admitted'") == [(32,)]
    assert not served.lines_of("unhandled_error")


def submit_until_refused(api: httpx.Client) -> tuple[int, httpx.Response, str]:
    """How many batches went into the room that was left, and the first that did not, with its key."""
    for made in range(200):
        key = str(uuid.uuid4())
        answer = submit(api, key)
        if answer.status_code != 201:
            assert answer.status_code == 503, answer.text
            return made, answer, key
    raise AssertionError("the disk does not become full")


def count(site: Site, table: str) -> int:
    return int(site.rows(f"SELECT count(*) AS n FROM {table}")[0].n)


def held_in_both(site: Site, client: redis.Redis) -> int | None:
    """How many GPUs are held, once PostgreSQL and the ledger agree."""
    state = Ledger(client).read()
    in_ledger = len(state.holders()) if state is not None else None
    return in_ledger if in_ledger == site.held() else None
