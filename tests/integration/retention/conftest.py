"""A pool whose dispatcher has registered its nodes; groups of it end as they do in life."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import Engine

from service.inventory.client import make_client
from tests.integration.dispatch.site import Site, registered_site


@pytest.fixture
def site(engine: Engine, tmp_path: Path) -> Iterator[Site]:
    with registered_site(engine, tmp_path) as site:
        yield site


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[Redis]:
    client = make_client(redis_url)
    yield client
    client.close()
