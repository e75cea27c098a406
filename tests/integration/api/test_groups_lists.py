"""Lists of groups: orders, filters, pages and rights."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from service.domain.principal import KeyRole
from tests.integration.api.callers import Callers
from tests.integration.api.cluster import Cluster

Client = TestClient[Litestar]


def _submit(client: Client, name: str, **fields: Any) -> str:
    answer = client.post("/v1/groups", json={"name": name, "gpus": 1, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _list(client: Client, **params: Any) -> list[dict[str, Any]]:
    """Every page of a list, two groups a page."""
    groups: list[dict[str, Any]] = []
    while True:
        page = client.get("/v1/groups", params={"limit": 2, **params})
        assert page.status_code == 200, page.text
        groups += page.json()["groups"]
        assert len(page.json()["groups"]) <= 2
        if page.json()["cursor"] is None:
            return groups
        params["cursor"] = page.json()["cursor"]


def _names(client: Client, **params: Any) -> list[str]:
    return [group["name"] for group in _list(client, **params)]


def test_waiting_groups_come_in_the_order_of_the_next_cycle(user: Client, cluster: Cluster) -> None:
    for name, fields in (
        ("low", {"priority": -1}),
        ("a", {}),
        ("high", {"priority": 5}),
        ("b", {"gpus": 4}),
        ("runs", {"priority": 9, "gpus": 4}),
        ("shards", {"scheduling": "independent", "members": 3}),
    ):
        _submit(user, name, **fields)
    cluster.settle()
    waiting = _list(user, queue="default", waiting=True)
    assert [group["name"] for group in waiting] == ["high", "a", "b", "shards", "low"]
    assert [group["position"] for group in waiting] == [1, 2, 3, 4, 5]
    assert _names(user) == ["shards", "runs", "b", "high", "a", "low"]
    assert _names(user, order="position", status=["Running", "Pending"])[0] == "runs"
    assert {group["name"]: group["position"] for group in _list(user)}["runs"] is None


def test_an_independent_group_that_runs_in_part_is_listed_as_waiting(user: Client, cluster: Cluster) -> None:
    _submit(user, "shards", scheduling="independent", members=6)
    cluster.settle()
    (group,) = _list(user, waiting=True)
    assert (group["status"], group["units"], group["position"]) == (
        "Running",
        {"Pending": 2, "Running": 4},
        1,
    )


def test_filters(user: Client, operator: Client, cluster: Cluster) -> None:
    _submit(user, "a", labels={"team": "vision", "run": "1"})
    _submit(user, "b", labels={"team": "vision"})
    cancelled = _submit(user, "c")
    user.delete(f"/v1/groups/{cancelled}")
    _submit(operator, "d")
    assert _names(user) == ["c", "b", "a"]
    assert _names(user, name="b") == ["b"]
    assert _names(user, status="Cancelled") == ["c"]
    assert _names(user, status=["Cancelled", "Pending"]) == ["c", "b", "a"]
    assert _names(user, label=["team=vision", "run=1"]) == ["a"]
    assert _names(user, label="team=audio") == []
    assert _names(operator) == ["d", "c", "b", "a"]
    assert _names(operator, owner="operator") == ["d"]
    assert _names(user, owner="operator") == []
    assert _names(user, queue="nowhere") == []
    cluster.settle()
    assert _names(user, status="Running") == ["b", "a"]
    assert _names(user, status="Pending") == []


def test_bad_parameters_are_named(user: Client) -> None:
    for params, field in (
        ({"status": "Asleep"}, "status"),
        ({"limit": 0}, "limit"),
        ({"limit": 10**9}, "limit"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": "AAAA"}, "cursor"),
        ({"label": "team"}, "label"),
        ({"order": "random"}, "order"),
        ({"name": "a\x00b"}, "name"),
        ({"queue": "a\x00b"}, "queue"),
        ({"label": "a=\x00"}, "label"),
    ):
        answer = user.get("/v1/groups", params=params)
        assert answer.status_code == 422, (params, answer.text)
        assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_others_show_as_position_and_size_only(user: Client, callers: Callers, cluster: Cluster) -> None:
    other = callers.make(KeyRole.USER, user="other")
    _submit(other, "theirs-runs", gpus=4, labels={"team": "x"})
    cluster.settle()
    _submit(other, "theirs", members=2, gpus=2, labels={"team": "x"}, command=["secret"])
    _submit(user, "mine")
    cluster.settle()
    theirs, mine = _list(user, queue="default", waiting=True)
    assert (mine["name"], mine["position"]) == ("mine", 2)
    told = {field: value for field, value in theirs.items() if value is not None}
    assert told == {
        "queue": "default",
        "is_waiting": True,
        "position": 1,
        "wanted_members": 2,
        "wanted_gpus": 4,
    }
    assert _names(user) == ["mine"]
    assert _names(user, waiting=True) == ["mine"]
    for narrow in ({"name": "theirs"}, {"owner": "other"}, {"label": "team=x"}, {"status": "Pending"}):
        assert "theirs" not in str(_list(user, queue="default", **narrow))
        assert len(_list(user, queue="default", **narrow)) <= 1


def test_a_cursor_tells_nothing_of_the_group_that_it_stands_for(
    user: Client, callers: Callers, engine: Engine
) -> None:
    _submit(callers.make(KeyRole.USER, user="other"), "theirs", priority=12_345)
    _submit(user, "mine", priority=1)
    page = user.get("/v1/groups", params={"queue": "default", "waiting": "true", "limit": 1}).json()
    assert page["groups"][0]["priority"] is None
    packed = base64.urlsafe_b64decode(page["cursor"])
    with engine.connect() as conn:
        row = conn.execute(text("SELECT id, priority, submitted_at FROM groups WHERE name = 'theirs'")).one()
    for value in (row.priority, row.submitted_at):
        assert msgspec.msgpack.encode(value) not in packed
    forged = base64.urlsafe_b64encode(msgspec.msgpack.encode((0, row.submitted_at, row.id))).decode()
    assert user.get("/v1/groups", params={"cursor": forged}).status_code == 422


def test_a_tenant_sees_nothing_of_another_tenants_queue(user: Client, admin: Client) -> None:
    admin.post("/v1/queues", json={"name": "q1", "tenant": "elsewhere"}).raise_for_status()
    _submit(admin, "g", queue="q1")
    assert _list(user, queue="q1") == []
    assert _names(admin, queue="q1") == ["g"]
