"""The real application over real servers, driven by Litestar's test client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Engine

from service.api.app import create_app
from service.domain.principal import KeyRole
from service.inventory.client import make_client
from service.settings import Settings
from service.store.engine import make_engine
from tests.integration.api.callers import Callers
from tests.integration.api.cluster import Cluster
from tests.serving import KEY


@pytest.fixture
def settings(database_url: str, redis_url: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database_url, redis_url=redis_url, data=tmp_path, api_key=KEY)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    engine = make_engine(settings.database_url, pool_size=settings.api_pool_size)
    yield engine
    engine.dispose()


@pytest.fixture
def redis(settings: Settings) -> Iterator[Redis]:
    with make_client(settings.redis_url) as client:
        yield client


@pytest.fixture
def app(settings: Settings, engine: Engine, redis: Redis) -> Litestar:
    return create_app(settings, engine=engine, redis=redis)


@pytest.fixture
def anonymous(app: Litestar) -> Iterator[TestClient[Litestar]]:
    """A client without a key."""
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def callers(anonymous: TestClient[Litestar], engine: Engine) -> Callers:
    return Callers(anonymous, engine)


@pytest.fixture
def admin(callers: Callers) -> TestClient[Litestar]:
    return callers.with_key(KEY)


@pytest.fixture
def operator(callers: Callers) -> TestClient[Litestar]:
    return callers.make(KeyRole.OPERATOR)


@pytest.fixture
def user(callers: Callers) -> TestClient[Litestar]:
    return callers.make(KeyRole.USER)


@pytest.fixture
def cluster(settings: Settings, engine: Engine, redis: Redis) -> Iterator[Cluster]:
    """One node with four GPUs."""
    cluster = Cluster(settings, engine, redis)
    yield cluster
    cluster.close()
