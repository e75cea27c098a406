from __future__ import annotations

from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from service.domain.principal import KeyRole
from tests.integration.api.callers import Callers

Client = TestClient[Litestar]

#: A queue of which nothing was said but its name.
DEFAULTS: dict[str, Any] = {
    "tenant": None,
    "cohort": None,
    "weight": 1,
    "order": "best_effort",
    "order_by": "age",
    "stop": "none",
    "nominal_quota": None,
    "borrowing_limit": {},
    "lending_limit": {},
    "limit": {},
    "user_limit": {},
    "group_limit": {},
    "flavors": None,
    "pools": None,
    "filling": "pack",
    "preempt_within": "never",
    "reclaim": "never",
    "min_runtime": "0s",
    "evictions_per_day": None,
    "highest_priority": {},
    "default_time_limit": None,
    "max_time_limit": None,
    "used": {},
    "borrowed": {},
    "demanded": {},
    "waiting": 0,
    "share": 0,
    "rank": 0,
    "created_at": None,
    "deleting_at": None,
}


def version(engine: Engine) -> int:
    with engine.connect() as conn:
        return int(conn.execute(text("SELECT version FROM config")).scalar_one())


def fields_of(answer: Any) -> set[str]:
    return {error["field"] for error in answer.json()["errors"]}


def test_a_queue_is_made_read_changed_and_deleted(admin: Client, engine: Engine) -> None:
    before = version(engine)
    body = {
        "name": "research",
        "order": "strict",
        "nominal_quota": {"H100-80GB": 8, "cpus": 64.5, "memory_gib": 512},
        "limit": {"H100-80GB": 16},
    }
    made = admin.post("/v1/queues", json=body)
    assert made.status_code == 201, made.text
    assert made.json() | {"created_at": None, "rank": 0} == DEFAULTS | {
        "name": "research",
        "order": "strict",
        "nominal_quota": {"H100-80GB": 8, "cpus": 64.5, "memory_gib": 512},
        "limit": {"H100-80GB": 16},
    }
    assert admin.get("/v1/queues/research").json() == made.json()
    assert [queue["name"] for queue in admin.get("/v1/queues").json()["queues"]] == ["default", "research"]

    changed = admin.patch(
        "/v1/queues/research", json={"stop": "hold", "nominal_quota": {}, "order": "best_effort"}
    )
    assert changed.status_code == 200
    wanted = made.json() | {"stop": "hold", "nominal_quota": {}, "order": "best_effort"}
    assert changed.json() == wanted

    assert admin.delete("/v1/queues/research").status_code == 202
    assert admin.get("/v1/queues/research").status_code == 404
    assert admin.delete("/v1/queues/research").status_code == 404
    assert version(engine) == before + 3
    assert admin.post("/v1/queues", json={"name": "research"}).status_code == 201, "its name is free again"


def test_no_quota_and_an_empty_quota_differ(admin: Client) -> None:
    assert admin.post("/v1/queues", json={"name": "q"}).json()["nominal_quota"] is None
    assert admin.patch("/v1/queues/q", json={"nominal_quota": {}}).json()["nominal_quota"] == {}
    assert admin.patch("/v1/queues/q", json={}).json()["nominal_quota"] == {}
    assert admin.patch("/v1/queues/q", json={"nominal_quota": None}).json()["nominal_quota"] is None


def test_a_nominal_quota_above_the_limit_is_refused_and_names_both(admin: Client) -> None:
    refused = admin.post("/v1/queues", json={"name": "q", "nominal_quota": {"mx": 8}, "limit": {"mx": 4}})
    assert refused.status_code == 422
    assert fields_of(refused) == {"nominal_quota.mx", "limit.mx"}
    assert admin.get("/v1/queues/q").status_code == 404

    assert (
        admin.post(
            "/v1/queues", json={"name": "q", "nominal_quota": {"mx": 4}, "limit": {"mx": 4}}
        ).status_code
        == 201
    )
    for change in ({"nominal_quota": {"mx": 5}}, {"limit": {"mx": 3}}):
        refused = admin.patch("/v1/queues/q", json=change)
        assert refused.status_code == 422
        assert fields_of(refused) == {"nominal_quota.mx", "limit.mx"}
    assert admin.get("/v1/queues/q").json()["limit"] == {"mx": 4}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "q\n"}, "name"),
        ({"name": "q" * 64}, "name"),
        ({"name": 7}, "name"),
        ({"name": "q", "order": "fifo"}, "order"),
        ({"name": "q", "order_by": "size"}, "order_by"),
        ({"name": "q", "bogus": 1}, "bogus"),
        ({"name": "q", "nominal_quota": {"mx": -1}}, "nominal_quota.mx"),
        ({"name": "q", "nominal_quota": {"mx": 1e300}}, "nominal_quota.mx"),
        ({"name": "q", "nominal_quota": {"mx": 10**40}}, "nominal_quota.mx"),
        ({"name": "q", "nominal_quota": {"mx": "1"}}, "nominal_quota.mx"),
        ({"name": "q", "nominal_quota": {"mx": 1.5}}, "nominal_quota.mx"),
        ({"name": "q", "nominal_quota": {"cpus": 0.0004}}, "nominal_quota.cpus"),
        ({"name": "q", "limit": {"memory_gib": 0.0004}}, "limit.memory_gib"),
        ({"name": "q", "limit": {"memory": 1}}, "limit.memory"),
        ({"name": "q", "nominal_quota": {"a": 1, "mx": -1, "b": 1}, "limit": {"c": 1}}, "nominal_quota.mx"),
        ({"name": "q", "limit": {"a": 1, "x" * 129: 1}}, "limit." + "x" * 128),
        ({"name": "q", "limit": {"a\x00": 1}}, "limit"),
        ({"name": "q", "limit": [1]}, "limit"),
        ({"name": "q", "cohort": "nowhere", "nominal_quota": {}}, "cohort"),
        ({"name": "q", "weight": -1}, "weight"),
        ({"name": "q", "weight": 1e10}, "weight"),
        ({"name": "q", "weight": None}, "weight"),
        ({"name": "q", "borrowing_limit": {"mx": 1}}, "borrowing_limit"),
        ({"name": "q", "lending_limit": {"mx": 0}, "nominal_quota": {"mx": 1}}, "lending_limit"),
        ({"name": "q", "user_limit": {"mx": 0.5}}, "user_limit.mx"),
        ({"name": "q", "group_limit": {"mx": -1}}, "group_limit.mx"),
        ({"name": "q", "flavors": ["a\n"]}, "flavors[0]"),
        ({"name": "q", "pools": [""]}, "pools[0]"),
        ({"name": "q", "filling": "evenly"}, "filling"),
        ({"name": "q", "preempt_within": "any"}, "preempt_within"),
        ({"name": "q", "reclaim": "all"}, "reclaim"),
        ({"name": "q", "min_runtime": "soon"}, "min_runtime"),
        ({"name": "q", "evictions_per_day": 0}, "evictions_per_day"),
        ({"name": "q", "highest_priority": {"root": 1}}, "highest_priority.root"),
        ({"name": "q", "highest_priority": {"user": 1.5}}, "highest_priority.user"),
        ({"name": "q", "default_time_limit": "2h", "max_time_limit": "1h"}, "default_time_limit"),
        ({"name": "q", "max_time_limit": "999999999d"}, "max_time_limit"),
    ],
)
def test_a_wrong_field_is_named(admin: Client, body: dict[str, object], field: str) -> None:
    refused = admin.post("/v1/queues", json=body)
    assert refused.status_code == 422, refused.text
    assert fields_of(refused) == {field}


def test_every_wrong_field_is_named(admin: Client) -> None:
    refused = admin.post("/v1/queues", json={"nominal_quota": {"a": -1, "b": 1, "c": "2"}, "weight": "x"})
    assert refused.status_code == 422
    assert fields_of(refused) == {"nominal_quota.a", "nominal_quota.c", "weight", "name"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"name": "q", "limit": {"a": -1}, "limit": 5}', "limit"),
        (b'{"name": "q", "limit": {"a": -1, "a": 5}}', "limit.a"),
    ],
)
def test_what_is_wrong_and_said_again_is_refused_as_said_twice(
    admin: Client, body: bytes, field: str
) -> None:
    refused = admin.post("/v1/queues", content=body)
    assert refused.status_code == 422
    assert fields_of(refused) == {field}


def test_what_is_wrong_in_a_body_that_is_broken_behind_it_is_no_json(admin: Client) -> None:
    refused = admin.post("/v1/queues", content=b'{"name": "q", "limit": {"a": -1}, broken')
    assert (refused.status_code, refused.json()["type"]) == (400, "/problems/malformed-body")


def test_a_name_is_taken_once(admin: Client) -> None:
    refused = admin.post("/v1/queues", json={"name": "default"})
    assert refused.status_code == 409
    assert fields_of(refused) == {"name"}


def test_only_an_admin_changes_queues(operator: Client, user: Client) -> None:
    for client in (operator, user):
        assert client.post("/v1/queues", json={"name": "q"}).status_code == 403
        assert client.patch("/v1/queues/default", json={"stop": "hold"}).status_code == 403
        assert client.delete("/v1/queues/default").status_code == 403
        assert client.get("/v1/queues/default").status_code == 200


def test_a_queue_of_another_tenant_looks_like_none(admin: Client, callers: Callers) -> None:
    assert admin.post("/v1/queues", json={"name": "theirs", "tenant": "blue"}).status_code == 201
    blue, red = callers.make(KeyRole.USER, tenant="blue"), callers.make(KeyRole.USER, tenant="red")
    assert blue.get("/v1/queues/theirs").status_code == 200
    hidden, none = red.get("/v1/queues/theirs"), red.get("/v1/queues/nothing")
    assert (
        (hidden.status_code, hidden.json()["type"])
        == (none.status_code, none.json()["type"])
        == (404, "/problems/not-found")
    )
    assert [queue["name"] for queue in red.get("/v1/queues").json()["queues"]] == ["default"]
