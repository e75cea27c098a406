"""Queues with groups in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Engine, text

from service.clock import SystemClock
from service.settings import Settings
from tests.integration.api.rows import add_nodes, add_pool
from workers.admission import Leader

Client = TestClient[Litestar]


@pytest.fixture
def leader(settings: Settings, engine: Engine, redis: Redis, admin: Client) -> Iterator[Leader]:
    """A leader of 8 GPUs, and a queue `q`."""
    with engine.begin() as conn:
        add_nodes(conn, add_pool(conn), {"n1": (8, "mx")})
    assert admin.post("/v1/queues", json={"name": "q"}).status_code == 201
    leader = Leader(settings.database_url, redis, clock=SystemClock(), settings=settings, name="w1")
    yield leader
    leader.close()


def submit(client: Client, name: str, **fields: object) -> str:
    body = {
        "name": name,
        "queue": "q",
        "members": 6,
        "gpus": 1,
        "cpus": 2,
        "memory_gib": 4,
        "command": ["true"],
    }
    answer = client.post("/v1/groups", json=body | fields)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def statuses(engine: Engine) -> dict[str, str]:
    query = text("SELECT g.name, u.status FROM units u JOIN groups g ON g.id = u.group_id")
    with engine.connect() as conn:
        return {row.name: row.status for row in conn.execute(query)}


def test_used_and_demanded(leader: Leader, admin: Client) -> None:
    submit(admin, "a", gpu={"models": ["mx"]})
    submit(admin, "b", gpu={"models": ["mx"]})
    submit(admin, "any", members=2)
    submit(admin, "tasks", scheduling="independent", members=5, gpu={"models": ["mx", "my"]})
    before = admin.get("/v1/queues/q").json()
    assert (before["used"], before["waiting"]) == ({}, 4)
    assert before["demanded"] == {"*": 2, "cpus": 38, "memory_gib": 76, "mx": 17}
    leader.run_cycle()
    after = admin.get("/v1/queues/q").json()
    assert after["used"] == {"cpus": 16, "memory_gib": 32, "mx": 8}
    assert sum(amount for name, amount in after["demanded"].items() if name in ("*", "mx")) == 19


def test_a_queue_in_use_is_not_deleted(leader: Leader, admin: Client, engine: Engine) -> None:
    submit(admin, "a")
    for _ in range(2):  # waiting, then live
        refused = admin.delete("/v1/queues/q")
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/conflict")
        leader.run_cycle()
    assert statuses(engine) == {"a": "Admitted"}


def test_a_deleted_queue_leaves_its_ended_groups(leader: Leader, admin: Client) -> None:
    group = submit(admin, "a")
    assert admin.delete(f"/v1/groups/{group}").status_code == 202
    assert admin.delete("/v1/queues/q").status_code == 202
    assert admin.get(f"/v1/groups/{group}").json()["queue"] == "q"
    refused = admin.post("/v1/groups", json={"name": "b", "queue": "q", "gpus": 1, "command": ["true"]})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "queue"


def test_no_submission_slips_into_a_queue_that_is_being_deleted(
    leader: Leader, admin: Client, engine: Engine
) -> None:
    """The deletion holds the queue's row; a submission that began meanwhile has to see it gone."""
    answers = []

    def late() -> None:
        body = {"name": "late", "queue": "q", "gpus": 1, "command": ["true"]}
        answers.append(admin.post("/v1/groups", json=body).status_code)

    with engine.begin() as conn:
        conn.execute(text("SELECT FROM queues WHERE name = 'q' FOR UPDATE"))
        thread = threading.Thread(target=late)
        thread.start()
        thread.join(0.5)
        assert not answers, "it waits"
        conn.execute(text("UPDATE queues SET deleted_at = now() WHERE name = 'q'"))
    thread.join(10)
    assert answers == [422]
    assert statuses(engine) == {}


@pytest.mark.parametrize(("stop", "expected"), [("hold", "Admitted"), ("hold_and_drain", "Evicting")])
def test_stopping_a_queue(leader: Leader, admin: Client, engine: Engine, stop: str, expected: str) -> None:
    submit(admin, "a")
    leader.run_cycle()
    submit(admin, "b", members=1)
    assert admin.patch("/v1/queues/q", json={"stop": stop}).status_code == 200
    assert leader.run_cycle().admitted == 0
    assert statuses(engine) == {"a": expected, "b": "Pending"}
    with engine.connect() as conn:
        query = text("SELECT evict_target, evict_message FROM attempts")
        target, message = conn.execute(query).one()
    assert (target, message) == (
        (None, None) if stop == "hold" else ("Pending", "Queue q was stopped and drained.")
    )
    assert admin.patch("/v1/queues/q", json={"stop": "none"}).status_code == 200
    assert leader.run_cycle().admitted == 1


def test_a_change_between_plan_and_commit_stops_the_commit(
    leader: Leader, admin: Client, engine: Engine
) -> None:
    """L2: what was planned before the queue was stopped does not commit after."""
    submit(admin, "a")
    assert leader.read_and_plan()
    assert leader.reserve()
    assert admin.patch("/v1/queues/q", json={"stop": "hold"}).status_code == 200
    assert not leader.commit()
    assert leader.run_cycle().admitted == 0
    assert statuses(engine) == {"a": "Pending"}
