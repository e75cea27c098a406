"""A PostgreSQL that is frozen closes no connection and ends no statement, and still nobody waits for it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from service.store.migrate import upgrade
from tests.integration.api.waiting import wait_until
from tests.serving import Served, serving
from workers.embedded import postgres
from workers.embedded.postgres import PostgresServer

UNKNOWN = "019a0000-0000-7000-8000-000000000000"
#: More than the API has threads, so that some wait for one.
ROUTES = [
    ("GET", "/v1/queues"),
    ("GET", "/v1/queues/default"),
    ("POST", "/v1/queues"),
    ("GET", "/v1/nodes"),
    ("POST", "/v1/nodes/a/cordon"),
    ("GET", "/v1/groups"),
    ("POST", "/v1/groups"),
    ("GET", f"/v1/groups/{UNKNOWN}"),
    ("DELETE", f"/v1/groups/{UNKNOWN}"),
    ("GET", f"/v1/groups/{UNKNOWN}/events"),
    ("GET", f"/v1/groups/{UNKNOWN}/members"),
    ("GET", "/v1/keys"),
] * 4
TAKE_BODIES = {("POST", "/v1/queues"), ("POST", "/v1/groups")}


@pytest.fixture
def store(server_folder: Path) -> Iterator[PostgresServer]:
    with PostgresServer.start(
        server_folder / "postgres",
        socket_dir=server_folder / "sockets",
        options=postgres.UNSAFE_FAST_OPTIONS,
    ) as server:
        upgrade(server.url)
        yield server


@pytest.fixture
def served(store: PostgresServer, redis_url: str, tmp_path: Path) -> Iterator[Served]:
    with serving(database_url=store.url, redis_url=redis_url, data=tmp_path) as served:
        yield served


@pytest.fixture
def api(served: Served) -> Iterator[httpx.Client]:
    with served.caller(timeout=30) as client:
        yield client


@contextmanager
def frozen(server: PostgresServer) -> Iterator[None]:
    top = psutil.Process(server.pid)
    processes = [top, *top.children(recursive=True)]
    try:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


def ask(api: httpx.Client, method: str, path: str) -> tuple[str, int, str, float]:
    body = {"name": "q"} if (method, path) in TAKE_BODIES else None
    began_at = time.monotonic()
    answer = api.request(method, path, json=body)
    kind = answer.json().get("type", "") if answer.status_code >= 400 else ""
    return f"{method} {path}", answer.status_code, kind, time.monotonic() - began_at


def ask_all(api: httpx.Client, routes: list[tuple[str, str]]) -> list[tuple[str, int, str, float]]:
    with ThreadPoolExecutor(len(routes)) as threads:
        return list(threads.map(lambda route: ask(api, *route), routes))


def test_a_frozen_postgresql_is_503_soon_and_recovers(
    served: Served, api: httpx.Client, store: PostgresServer
) -> None:
    reads = [route for route in ROUTES if route[0] == "GET"]
    assert {status for _, status, _, _ in ask_all(api, reads)} <= {200, 404}
    assert ask(api, "GET", "/readyz")[1] == 200

    with frozen(store), ThreadPoolExecutor(4) as others:
        # 1. Everybody at once, with warm connections: nobody waits for long, and the probes least.
        ready = others.submit(ask, api, "GET", "/readyz")
        alive = others.submit(ask, api, "GET", "/healthz")
        measured = others.submit(ask, api, "GET", "/metrics")
        for name, status, kind, seconds in ask_all(api, ROUTES):
            assert (status, kind) == (503, "/problems/store-unavailable"), name
            assert seconds < 6, name
        assert ready.result()[1:3] == (503, "/problems/store-unavailable")
        assert ready.result()[3] < 2.5
        assert alive.result()[1] == 200
        assert alive.result()[3] < 1
        assert measured.result()[1] == 200
        assert measured.result()[3] < 6

        # 2. Once it is known, the answer comes at once, and every thread is free to give it.
        for name, status, _, seconds in ask_all(api, ROUTES):
            assert status == 503, name
            assert seconds < 3, name
        assert ask(api, "GET", "/readyz")[3] < 2.5

    # 3. It recovers by itself.
    wait_until(lambda: ask(api, "GET", "/v1/queues")[1] == 200, seconds=10)
    wait_until(lambda: ask(api, "GET", "/readyz")[1] == 200, seconds=10)
    assert {status for _, status, _, _ in ask_all(api, reads)} <= {200, 404}
    assert not served.lines_of("unhandled_error")
