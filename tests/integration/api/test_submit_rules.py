"""What a queue asks of the groups that are submitted to it, and what it adds to them."""

from __future__ import annotations

from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

Client = TestClient[Litestar]

GROUP = {"name": "g", "queue": "q", "members": 2, "gpus": 4, "command": ["true"]}


def make_queue(admin: Client, **fields: Any) -> None:
    answer = admin.post("/v1/queues", json={"name": "q", **fields})
    assert answer.status_code == 201, answer.text


def errors_of(answer: Any) -> dict[str, str]:
    assert answer.status_code == 422, answer.text
    return {error["field"]: error["message"] for error in answer.json()["errors"]}


@pytest.mark.parametrize(
    ("queue", "asked", "got"),
    [
        ({}, None, None),
        ({"default_time_limit": "1h"}, None, 3600),
        ({"default_time_limit": "1h"}, "5m", 300),
        ({"default_time_limit": "1h"}, "5h", 18_000),
        ({"max_time_limit": "2h"}, None, 7200),
        ({"max_time_limit": "2h", "default_time_limit": "1h"}, None, 3600),
        ({"max_time_limit": "2h"}, "2h", 7200),
    ],
)
def test_a_queue_gives_a_time_limit(
    admin: Client, user: Client, queue: dict[str, Any], asked: str | None, got: int | None
) -> None:
    make_queue(admin, **queue)
    made = user.post("/v1/groups", json=GROUP | {"time_limit": asked})
    assert made.status_code == 201, made.text
    assert made.json()["time_limit_seconds"] == got


def test_a_time_limit_above_the_longest_is_refused(admin: Client, user: Client) -> None:
    make_queue(admin, max_time_limit="2h")
    (field, message) = errors_of(user.post("/v1/groups", json=GROUP | {"time_limit": "3h"})).popitem()
    assert field == "time_limit"
    assert "7200" in message
    batch = {"groups": [GROUP, GROUP | {"time_limit": "3h"}]}
    assert [*errors_of(user.post("/v1/groups/batch", json=batch))] == ["groups[1].time_limit"]


def test_each_role_of_user_has_its_highest_priority(admin: Client, operator: Client, user: Client) -> None:
    make_queue(admin, highest_priority={"user": 10, "operator": 100})
    for client, highest in ((user, 10), (operator, 100)):
        assert client.post("/v1/groups", json=GROUP | {"priority": highest}).status_code == 201
        message = errors_of(client.post("/v1/groups", json=GROUP | {"priority": highest + 1}))["priority"]
        assert str(highest) in message
    assert admin.post("/v1/groups", json=GROUP | {"priority": 1_000_000}).status_code == 201


@pytest.mark.parametrize(
    ("limit", "change", "is_taken"),
    [
        ({"mx": 8}, {"gpu": {"models": ["mx"]}}, True),
        ({"mx": 7}, {"gpu": {"models": ["mx"]}}, False),
        ({"mx": 7}, {}, True),
        ({"mx": 7}, {"gpu": {"models": ["mx", "my"]}}, True),
        ({"mx": 7, "my": 7}, {"gpu": {"models": ["mx", "my"]}}, False),
        ({"mx": 7, "my": 8}, {"gpu": {"models": ["mx", "my"]}}, True),
        ({"cpus": 7.5}, {}, False),
        ({"cpus": 8, "memory_gib": 8}, {}, True),
        ({"memory_gib": 7}, {}, False),
        ({"mx": 4}, {"gpu": {"models": ["mx"]}, "scheduling": "independent", "members": 100}, True),
        ({"mx": 3}, {"gpu": {"models": ["mx"]}, "scheduling": "independent"}, False),
    ],
)
def test_a_group_that_needs_more_than_one_may_hold_is_refused(
    admin: Client, user: Client, limit: dict[str, float], change: dict[str, Any], is_taken: bool
) -> None:
    for queue in ("group_limit", "user_limit"):
        assert admin.post("/v1/queues", json={"name": queue, queue: limit}).status_code == 201
        answer = user.post("/v1/groups", json=GROUP | change | {"queue": queue})
        if is_taken:
            assert answer.status_code == 201, answer.text
        else:
            assert queue in errors_of(answer)["members"]


def test_an_elastic_group_needs_no_more_than_its_least(admin: Client, user: Client) -> None:
    make_queue(admin, user_limit={"mx": 8})
    role = {"count": 8, "min_count": 2, "requests": {"gpus": 4}, "gpu": {"models": ["mx"]}, "command": ["x"]}
    asked = {"name": "e", "queue": "q", "roles": [role], "elastic": {"resize": "at_start"}}
    assert user.post("/v1/groups", json=asked).status_code == 201
    more = asked | {"roles": [role | {"min_count": 3}]}
    assert "12" in errors_of(user.post("/v1/groups", json=more))["roles[0].count"]


def test_a_group_names_its_priority_by_a_class(admin: Client, user: Client) -> None:
    assert admin.put("/v1/priority-classes/urgent", json={"value": 1000}).status_code == 200
    made = user.post("/v1/groups", json=GROUP | {"queue": "default", "priority": "urgent"})
    assert (made.status_code, made.json()["priority"]) == (201, 1000)

    # A group that is there keeps what its class stood for.
    assert admin.put("/v1/priority-classes/urgent", json={"value": 5}).status_code == 200
    later = user.post("/v1/groups", json=GROUP | {"queue": "default", "priority": "urgent"})
    assert later.json()["priority"] == 5
    assert user.get(f"/v1/groups/{made.json()['id']}").json()["priority"] == 1000

    batch = {"groups": [GROUP | {"queue": "default", "name": f"g{n}", "priority": "urgent"} for n in (1, 2)]}
    ids = [group["id"] for group in user.post("/v1/groups/batch", json=batch).json()["groups"]]
    assert {user.get(f"/v1/groups/{each}").json()["priority"] for each in ids} == {5}


def test_an_unknown_class_and_one_above_the_cap_are_refused(admin: Client, user: Client) -> None:
    make_queue(admin, highest_priority={"user": 10})
    assert admin.put("/v1/priority-classes/urgent", json={"value": 1000}).status_code == 200
    assert "urgent" in errors_of(user.post("/v1/groups", json=GROUP | {"priority": "nothing"}))["priority"]
    assert "10" in errors_of(user.post("/v1/groups", json=GROUP | {"priority": "urgent"}))["priority"]
    assert admin.post("/v1/groups", json=GROUP | {"priority": "urgent"}).status_code == 201


def test_priority_classes_are_kept_by_admins(admin: Client, operator: Client, user: Client) -> None:
    for client in (operator, user):
        assert client.put("/v1/priority-classes/a", json={"value": 1}).status_code == 403
        assert client.delete("/v1/priority-classes/a").status_code == 403
    for name, value in (("low", -5), ("high", 7)):
        made = admin.put(f"/v1/priority-classes/{name}", json={"value": value})
        assert (made.status_code, made.json()) == (200, {"name": name, "value": value})
    listed = user.get("/v1/priority-classes").json()["priority_classes"]
    assert listed == [{"name": "high", "value": 7}, {"name": "low", "value": -5}]
    assert user.get("/v1/priority-classes/low").json() == {"name": "low", "value": -5}
    assert admin.delete("/v1/priority-classes/low").status_code == 202
    assert admin.delete("/v1/priority-classes/low").status_code == 404
    assert user.get("/v1/priority-classes/low").status_code == 404


@pytest.mark.parametrize("name", ["5", "a%20b", "x" * 64, "-a"])
def test_a_class_is_no_number(admin: Client, name: str) -> None:
    assert admin.put(f"/v1/priority-classes/{name}", json={"value": 1}).status_code == 422
