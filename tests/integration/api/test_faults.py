"""A store that is away is a 503 that names it, soon, and everything recovers by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from service.api.app import create_app
from service.domain.principal import KeyRole
from service.inventory.client import make_client
from service.settings import Settings
from service.store.engine import make_engine
from service.store.migrate import upgrade
from tests.integration.api.callers import Callers
from tests.integration.api.waiting import wait_until
from tests.serving import KEY
from workers.embedded import postgres
from workers.embedded.postgres import PostgresServer

Client = TestClient[Litestar]
HEADERS = {"Authorization": f"Bearer {KEY}"}


def timed(client: Client, method: str, path: str) -> tuple[int, str, float]:
    began_at = time.monotonic()
    answer = client.request(method, path, headers=HEADERS, json={} if method == "POST" else None)
    kind = answer.json().get("type", "") if answer.status_code >= 400 else ""
    return answer.status_code, kind, time.monotonic() - began_at


@pytest.fixture
def without_redis(settings: Settings, engine: Engine) -> Iterator[Client]:
    away = make_client("unix:///nowhere/redis.sock")
    with TestClient(create_app(settings, engine=engine, redis=away), raise_server_exceptions=False) as client:
        yield client


def test_without_redis_only_what_needs_it_is_away(without_redis: Client) -> None:
    for path in ("/v1/inventory", "/v1/inventory/audit", "/readyz"):
        status, kind, seconds = timed(without_redis, "GET", path)
        assert (status, kind) == (503, "/problems/inventory-unavailable"), path
        assert seconds < 3
    assert "Redis" in without_redis.get("/readyz").json()["detail"]
    assert timed(without_redis, "GET", "/healthz")[0] == 200
    assert timed(without_redis, "GET", "/v1/queues")[0] == 200
    made = without_redis.post("/v1/queues", headers=HEADERS, json={"name": "q"})
    assert made.status_code == 201, "the wake-up is dropped, the change is not"


def test_postgresql_goes_and_comes_back(server_folder: Path, redis_url: str, tmp_path: Path) -> None:
    folder, sockets = server_folder / "postgres", server_folder / "sockets"
    options = postgres.UNSAFE_FAST_OPTIONS
    server = PostgresServer.start(folder, socket_dir=sockets, options=options)
    url = server.url_of("postgres")
    upgrade(url)
    server.stop()

    settings = Settings(database_url=url, redis_url=redis_url, data=tmp_path, api_key=KEY)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        # It starts without PostgreSQL, and says so.
        for path in ("/v1/queues", "/v1/groups", "/v1/nodes", "/v1/inventory", "/readyz"):
            status, kind, seconds = timed(client, "GET", path)
            assert (status, kind) == (503, "/problems/store-unavailable"), path
            assert seconds < 6
        assert timed(client, "GET", "/healthz")[0] == 200
        assert timed(client, "GET", "/metrics")[0] == 200

        # It recovers by itself, and has learnt its admin's key.
        server = PostgresServer.start(folder, socket_dir=sockets, options=options)
        try:
            wait_until(lambda: timed(client, "GET", "/v1/queues")[0] == 200, seconds=20)
            assert timed(client, "GET", "/readyz")[0] == 200

            # Connections of the pool that broke are replaced.
            server.stop()
            assert timed(client, "GET", "/v1/nodes")[:2] == (503, "/problems/store-unavailable")
            server = PostgresServer.start(folder, socket_dir=sockets, options=options)
            wait_until(lambda: timed(client, "GET", "/v1/nodes")[0] == 200, seconds=20)
        finally:
            server.stop()


def test_a_pool_that_is_used_up_is_503_in_five_seconds(settings: Settings, redis_url: str) -> None:
    engine = make_engine(settings.database_url, pool_size=1)
    app = create_app(settings, engine=engine, redis=make_client(redis_url))
    with TestClient(app, raise_server_exceptions=False) as client, engine.connect():
        status, kind, seconds = timed(client, "GET", "/v1/queues")
        assert (status, kind) == (503, "/problems/store-unavailable")
        assert 4 < seconds < 8
    engine.dispose()


def test_a_revocation_elsewhere_is_felt_within_a_second(
    callers: Callers, engine: Engine, admin: Client
) -> None:
    ada = callers.make(KeyRole.USER, user="ada")
    assert ada.get("/v1/queues").status_code == 200
    with engine.begin() as conn:
        conn.execute(text("UPDATE keys SET revoked_at = now() WHERE user_name = 'ada'"))
    time.sleep(1.1)
    assert ada.get("/v1/queues").status_code == 401
    assert admin.get("/v1/queues").status_code == 200
