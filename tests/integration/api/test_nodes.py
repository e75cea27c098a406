from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Engine, text

from service.clock import SystemClock
from service.inventory.keys import CYCLES_DIRTY, dispatcher_bell
from tests.integration.api.rows import add_nodes, add_pool
from tests.integration.api.waiting import wait_until

Client = TestClient[Litestar]


@pytest.fixture
def pool_id(engine: Engine) -> int:
    with engine.begin() as conn:
        pool = add_pool(conn)
        add_nodes(conn, pool, {"n1": (8, "H100-80GB"), "n2": (8, "H100-80GB")})
        add_nodes(conn, add_pool(conn, "other"), {"o1": (1, "L4")})
    return pool


def test_nodes_are_listed_with_their_gpus(user: Client, pool_id: int) -> None:
    listed = user.get("/v1/nodes").json()["nodes"]
    assert [node["name"] for node in listed] == ["n1", "n2", "o1"]
    node = user.get("/v1/nodes/n1").json()
    assert node == listed[0]
    assert (node["cpus"], node["memory_gib"], node["pool"], node["is_simulated"]) == (
        128,
        1024,
        "local",
        True,
    )
    assert node["gpus"][0] == {
        "index": 0,
        "model": "H100-80GB",
        "memory_gib": 80,
        "is_healthy": True,
        "is_lost": False,
        "is_held": False,
        "lost_note": None,
    }
    assert len(node["gpus"]) == 8
    assert user.get("/v1/nodes/none").status_code == 404


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("pool=other", ["o1"]),
        ("model=H100-80GB", ["n1", "n2"]),
        ("is_ready=false", []),
        ("is_cordoned=true", ["n2"]),
        ("pool=local&is_cordoned=false", ["n1"]),
    ],
)
def test_filters(operator: Client, pool_id: int, query: str, names: list[str]) -> None:
    assert operator.post("/v1/nodes/n2/cordon").status_code == 200
    assert [node["name"] for node in operator.get(f"/v1/nodes?{query}").json()["nodes"]] == names


def test_a_wrong_filter_is_named(user: Client) -> None:
    refused = user.get("/v1/nodes?is_ready=perhaps")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "is_ready"


def test_cordon_drain_and_uncordon(operator: Client, pool_id: int, engine: Engine, redis: Redis) -> None:
    before = SystemClock().now()
    assert operator.post("/v1/nodes/n1/cordon").json()["is_cordoned"] is True
    drained = operator.post("/v1/nodes/n1/drain", json={"deadline": "1m30s"}).json()
    drain_at = datetime.fromisoformat(drained["drain_at"])
    assert timedelta(seconds=90) <= drain_at - before < timedelta(seconds=120)
    assert operator.post("/v1/nodes/n1/cordon").json()["drain_at"] == drained["drain_at"], "a drain goes on"
    wait_until(lambda: redis.exists(dispatcher_bell(pool_id), CYCLES_DIRTY) == 2)
    freed = operator.post("/v1/nodes/n1/uncordon").json()
    assert (freed["is_cordoned"], freed["drain_at"]) == (False, None)
    with engine.connect() as conn:
        rows = conn.execute(
            text("SELECT kind, actor FROM events WHERE kind LIKE 'Node%ed' ORDER BY id")
        ).all()
        version = conn.execute(text("SELECT version FROM config")).scalar_one()
    assert [tuple(row) for row in rows] == [
        ("NodeCordoned", "operator"),
        ("NodeDrained", "operator"),
        ("NodeCordoned", "operator"),
        ("NodeUncordoned", "operator"),
    ]
    assert version >= 5


@pytest.mark.parametrize("body", [b"", b"{}", b'{"deadline": null}'])
def test_a_drain_without_deadline_only_cordons(operator: Client, pool_id: int, body: bytes) -> None:
    node = operator.post("/v1/nodes/n1/drain", content=body)
    assert node.status_code == 200, node.text
    assert (node.json()["is_cordoned"], node.json()["drain_at"]) == (True, None)


@pytest.mark.parametrize("deadline", [-1, "5x", "", 1e12, "9999999d", True, [1], "1s\n"])
def test_a_wrong_deadline_is_named(operator: Client, pool_id: int, deadline: object) -> None:
    refused = operator.post("/v1/nodes/n1/drain", json={"deadline": deadline})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "deadline"


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain"])
def test_users_do_not_change_nodes(user: Client, pool_id: int, verb: str) -> None:
    assert user.post(f"/v1/nodes/n1/{verb}").status_code == 403


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain"])
def test_an_unknown_node_is_not_found(operator: Client, verb: str) -> None:
    assert operator.post(f"/v1/nodes/nowhere/{verb}").status_code == 404
