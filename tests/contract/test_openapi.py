"""The description is the one in the repository, and the API does what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from litestar import Litestar
from redis import Redis
from schemathesis.config import SchemathesisConfig
from sqlalchemy import Engine

from service.api.app import create_app
from service.api.openapi import document
from service.clock import SystemClock
from service.inventory.client import make_client
from service.settings import Settings
from service.store.engine import make_engine
from tests.integration.api.rows import add_nodes, add_pool
from workers.admission import Leader

ROOT = Path(__file__).parents[2]
KEY = "an-admin-key-for-tests"


def test_the_description_in_the_repository_is_that_of_the_code() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "service.api.openapi"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    kept = (ROOT / "openapi" / "openapi.json").read_text()
    assert made.stdout == kept, "run `make openapi`"


def test_every_operation_has_a_name_a_summary_and_true_errors() -> None:
    names = []
    for path, item in document()["paths"].items():
        for operation in item.values():
            names.append(operation["operationId"])
            assert operation["description"], path
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"], path
    assert len(names) == len(set(names))
    verbs = {name.partition("-")[0] for name in names}
    assert verbs <= {
        "get", "list", "create", "update", "delete", "revoke", "submit", "cancel", "hold", "release", "cordon",
        "uncordon", "drain", "audit",
    }  # fmt: skip


def test_requests_refuse_unknown_fields() -> None:
    schemas = document()["components"]["schemas"]
    requests = [name for name in schemas if name.endswith(("Request", "Patch"))]
    assert len(requests) >= 8
    for name in requests:
        assert schemas[name]["additionalProperties"] is False, name


@pytest.fixture(scope="module")
def site(databases: Any, inventory_server: Any, tmp_path_factory: Any) -> Iterator[Litestar]:
    """The whole API over real servers, with a few nodes, queues, keys and groups in it."""
    with databases.migrated() as url, make_client(inventory_server.url) as redis:
        redis.flushall()
        settings = Settings(
            database_url=url,
            redis_url=inventory_server.url,
            data=tmp_path_factory.mktemp("data"),
            api_key=KEY,
        )
        engine = make_engine(url, pool_size=4)
        _fill(settings, engine, redis)
        yield create_app(settings, engine=engine, redis=redis)
        engine.dispose()


def _fill(settings: Settings, engine: Engine, redis: Redis) -> None:
    with engine.begin() as conn:
        add_nodes(conn, add_pool(conn), {"n1": (8, "H100-80GB")})
    leader = Leader(settings.database_url, redis, clock=SystemClock(), settings=settings, name="w1")
    leader.run_cycle()
    leader.close()


SCHEMA = schemathesis.openapi.from_dict(
    json.loads((ROOT / "openapi" / "openapi.json").read_text())
    if (ROOT / "openapi" / "openapi.json").exists()
    else document()
)
