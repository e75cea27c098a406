from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Engine, text

from service.clock import SystemClock
from service.domain.principal import KeyRole
from service.domain.unit import unit_id
from service.inventory import keys
from service.inventory.ledger import Ledger
from service.inventory.listing import publish_listing
from service.settings import Settings
from tests.integration.api.callers import Callers
from tests.integration.api.rows import add_nodes, add_pool
from workers.admission import Leader

Client = TestClient[Litestar]
NOW = SystemClock().now


@pytest.fixture
def leader(settings: Settings, engine: Engine, redis: Redis) -> Iterator[Leader]:
    """A leader of one node with 8 GPUs and one with 4."""
    with engine.begin() as conn:
        add_nodes(conn, add_pool(conn), {"n1": (8, "H100-80GB"), "n2": (4, "L4")})
    leader = Leader(settings.database_url, redis, clock=SystemClock(), settings=settings, name="w1")
    yield leader
    leader.close()


def submit(client: Client, name: str, members: int = 6) -> str:
    body = {
        "name": name,
        "members": members,
        "gpus": 1,
        "gpu": {"models": ["H100-80GB"]},
        "command": ["true"],
    }
    answer = client.post("/v1/groups", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def audit(client: Client) -> dict[str, Any]:
    answer = client.get("/v1/inventory/audit")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_inventory_shows_what_is_held_and_free(
    leader: Leader, callers: Callers, operator: Client
) -> None:
    ada, bob = callers.make(KeyRole.USER, user="ada"), callers.make(KeyRole.USER, user="bob")
    group = submit(ada, "a")
    assert leader.run_cycle().admitted == 1

    found = ada.get("/v1/inventory").json()
    assert {name: found[f"gpus_{name}"] for name in ("total", "held", "free", "lost")} == {
        "total": 12,
        "held": 6,
        "free": 6,
        "lost": 0,
    }
    n1, n2 = found["nodes"]
    assert n1["capacity"] == {"gpus": {"H100-80GB": 8}, "cpus": 128, "memory_gib": 1024}
    assert n1["free"] == {"gpus": {"H100-80GB": 2}, "cpus": 122, "memory_gib": 1018}
    assert (n1["held_gpus"], len(n1["free_gpus"]), n1["lost_gpus"]) == (6, 2, [])
    (holder,) = n1["holders"]
    assert holder["group"] == group
    assert sorted(holder["gpus"] + n1["free_gpus"]) == list(range(8))
    assert (holder["cpus"], holder["memory_gib"], holder["attempt"]) == (6, 6, 1)
    assert n2["holders"] == []

    assert operator.get("/v1/inventory").json() == found
    hidden = bob.get("/v1/inventory")
    assert group not in hidden.text
    assert hidden.json()["nodes"][0] == n1 | {"holders": []}


def test_a_clean_audit(leader: Leader, operator: Client, user: Client) -> None:
    submit(user, "a")
    leader.run_cycle()
    found = audit(operator)
    assert found["is_clean"], found
    assert (found["gpus_total"], found["gpus_held"], found["gpus_free"], found["gpus_lost"]) == (12, 6, 6, 0)
    assert user.get("/v1/inventory/audit").status_code == 403


def test_without_a_ledger_the_audit_says_so(leader: Leader, operator: Client, redis: Redis) -> None:
    leader.run_cycle()
    redis.flushall()
    assert [entry["kind"] for entry in audit(operator)["drift"]] == ["NoLedger"]
    missing = operator.get("/v1/inventory")
    assert (missing.status_code, missing.json()["type"]) == (503, "/problems/inventory-unavailable")


def test_an_orphan_in_the_ledger_is_named(leader: Leader, operator: Client, user: Client) -> None:
    group = submit(user, "a")
    assert leader.read_and_plan()
    assert leader.reserve()
    found = audit(operator)
    assert not found["is_clean"]
    assert {(entry["kind"], entry["node"], entry["group"]) for entry in found["drift"]} == {
        ("NotInBooks", "n1", group)
    }
    assert len({entry["device"] for entry in found["drift"]}) == 6
    assert "group a (attempt 1)" in found["drift"][0]["message"]
    assert leader.commit()
    assert audit(operator)["is_clean"]


def test_a_hold_that_the_ledger_lacks_is_named(
    leader: Leader, operator: Client, user: Client, engine: Engine, redis: Redis
) -> None:
    group = submit(user, "a")
    leader.run_cycle()
    ledger = Ledger(redis)
    stamp = ledger.stamp()
    assert stamp is not None
    unit = unit_of(engine, group)
    ledger.release(stamp, [(unit, 1)])
    found = audit(operator)
    assert {(entry["kind"], entry["group"]) for entry in found["drift"]} == {("NotInLedger", group)}


def test_a_lost_device_that_the_ledger_does_not_know_is_named(
    leader: Leader, operator: Client, engine: Engine
) -> None:
    leader.run_cycle()
    with engine.begin() as conn:
        conn.execute(text("UPDATE devices SET lost_at = now() WHERE device = 3 AND model = 'L4'"))
        conn.execute(text("UPDATE config SET version = version + 1"))
    (entry,) = audit(operator)["drift"]
    assert (entry["kind"], entry["node"], entry["device"], entry["group"]) == ("LostDiffers", "n2", 3, None)
    leader.apply_releases()
    found = audit(operator)
    assert found["is_clean"]
    assert found["gpus_lost"] == 1


@pytest.mark.parametrize(("age_seconds", "is_clean"), [(1, True), (11, False)])
def test_a_committed_release_may_take_ten_seconds(
    leader: Leader, operator: Client, user: Client, engine: Engine, age_seconds: int, is_clean: bool
) -> None:
    group = submit(user, "a")
    leader.run_cycle()
    close_attempt(engine, unit_of(engine, group), NOW() - timedelta(seconds=age_seconds))
    found = audit(operator)
    assert found["is_clean"] is is_clean
    named = found["releasing" if is_clean else "drift"]
    assert {(entry["kind"], entry["group"]) for entry in named} == {("NotInBooks", group)}
    assert len(named) == 6


def test_members_that_nobody_booked_are_named(
    leader: Leader, operator: Client, user: Client, engine: Engine, redis: Redis
) -> None:
    group = submit(user, "a")
    leader.run_cycle()
    unit = unit_of(engine, group)
    with engine.connect() as conn:
        pool_id = conn.execute(text("SELECT id FROM pools")).scalar_one()
    publish_listing(redis, pool_id, generations=[(unit, 1, 1)], at=NOW())
    assert audit(operator)["is_clean"]
    publish_listing(redis, pool_id, generations=[(unit, 1, 1), (unit_id(77, 0), 3, 1)], at=NOW())
    found = audit(operator)
    (entry,) = found["drift"]
    assert (entry["kind"], entry["group"], entry["attempt"]) == ("Unbooked", None, 3)
    assert list(found["listings"]) == ["local"]


def test_a_broken_ledger_entry_is_no_500(leader: Leader, operator: Client, redis: Redis) -> None:
    leader.run_cycle()
    redis.delete(keys.LEDGER)
    assert operator.get("/v1/inventory").status_code == 503


def unit_of(engine: Engine, group: str) -> int:
    """The one unit of a gang."""
    with engine.connect() as conn:
        query = text("SELECT u.id FROM units u JOIN groups g ON g.id = u.group_id WHERE g.public_id = :id")
        return int(conn.execute(query, {"id": group}).scalar_one())


def close_attempt(engine: Engine, unit: int, at: datetime) -> None:
    """What a dispatcher commits at that instant, however long ago the last member ended."""
    closed = (
        "INSERT INTO closed_attempts SELECT unit_id, attempt, group_id, queue_id, generation, dispatches,"
        " places, usage, admitted_at, running_at, :at - interval '1 hour', :at, 'Succeeded', NULL, 0"
        " FROM attempts WHERE unit_id = :unit"
    )
    statements = (
        closed,
        "DELETE FROM attempts WHERE unit_id = :unit",
        "UPDATE units SET status = 'Succeeded', ended_at = :at, version = version + 1 WHERE id = :unit",
    )
    with engine.begin() as conn:
        for statement in statements:
            conn.execute(text(statement), {"unit": unit, "at": at})
