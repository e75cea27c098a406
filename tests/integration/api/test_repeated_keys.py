"""A key that is there twice is refused on every route, whatever it stands in."""

from __future__ import annotations

import pytest
from litestar import Litestar
from litestar.testing import TestClient

Client = TestClient[Litestar]

_BODIES = [
    ("POST", "/v1/groups", '{"name": "a", "gpus": 1, "name": "b"}', "name"),
    ("POST", "/v1/groups", '{"name": "a", "env": {"LR": "1", "X": "2", "LR": "3"}}', "env.LR"),
    ("POST", "/v1/groups", '{"name": "a", "roles": [{"count": 1, "count": 1}]}', "roles[0].count"),
    ("POST", "/v1/groups/batch", '{"groups": [{"name": "a"}, {"name": "b", "name": "c"}]}', "groups[1].name"),
    ("POST", "/v1/groups/batch", '{"groups": [{"name": "a"}], "groups": [{"name": "b"}]}', "groups"),
    ("POST", "/v1/groups/check", '{"name": "a", "gpus": 1, "gpus": 2}', "gpus"),
    ("PATCH", "/v1/groups/{group_id}", '{"priority": 1, "labels": {"a": "b", "a": "c"}}', "labels.a"),
    ("POST", "/v1/queues", '{"name": "q", "weight": 1, "weight": 2}', "weight"),
    ("POST", "/v1/queues", '{"name": "q", "nominal_quota": {"mx": 1, "m\\u0078": 2}}', "nominal_quota.mx"),
    ("PATCH", "/v1/queues/{queue_name}", '{"stop": "hold", "stop": "none"}', "stop"),
    ("POST", "/v1/cohorts", '{"name" :"c", "name" :"d"}', "name"),
    ("PATCH", "/v1/cohorts/{cohort_name}", '{"weight": 1, "weight": 1}', "weight"),
    ("PUT", "/v1/policy", '{"queues": [{"name": "q", "limit": {"a": 1, "a": 1}}]}', "queues[0].limit.a"),
    ("PUT", "/v1/priority-classes/{class_name}", '{"value": 1, "value": 2}', "value"),
    ("POST", "/v1/keys", '{"tenant": "t", "user": "u", "role": "user", "user": "v"}', "user"),
    ("POST", "/v1/nodes/{node_name}/drain", '{"deadline": "1m", "deadline": "2m"}', "deadline"),
]


@pytest.mark.parametrize(("method", "path", "body", "field"), _BODIES)
def test_a_key_that_is_there_twice_is_named(
    admin: Client, method: str, path: str, body: str, field: str
) -> None:
    names = dict.fromkeys(("group_id", "queue_name", "cohort_name", "class_name", "node_name"), "default")
    answer = admin.request(method, path.format_map(names), content=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"] == [{"field": field, "message": "Is there twice; say it once."}]
    assert answer.json()["detail"] == f"{field}: Is there twice; say it once."


def test_nothing_comes_of_such_a_body(admin: Client) -> None:
    admin.post("/v1/groups", content='{"name": "twice", "gpus": 1, "gpus": 2}')
    assert admin.get("/v1/groups", params={"name": "twice"}).json()["groups"] == []


def test_every_route_that_takes_a_body_is_among_them(admin: Client) -> None:
    paths = admin.get("/openapi.json").json()["paths"]
    takers = {
        (method.upper(), path)
        for path, methods in paths.items()
        for method, said in methods.items()
        if "requestBody" in said
    }
    assert takers == {(method, path) for method, path, _, _ in _BODIES}
