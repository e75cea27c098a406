"""Batches: all or nothing, in their order."""

from __future__ import annotations

import time

from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from tests.integration.api.cluster import Cluster

Client = TestClient[Litestar]


def _group(name: str, **fields: object) -> dict[str, object]:
    return {"name": name, "gpus": 1, **fields}


def test_the_order_of_a_batch_is_the_order_of_submission(user: Client) -> None:
    names = [f"g{number}" for number in range(50)]
    answer = user.post("/v1/groups/batch", json={"groups": [_group(name) for name in names]})
    assert answer.status_code == 201
    assert [group["name"] for group in answer.json()["groups"]] == names
    listed = user.get("/v1/groups", params={"queue": "default", "waiting": True}).json()["groups"]
    assert [group["name"] for group in listed] == names
    assert [group["id"] for group in listed] == [group["id"] for group in answer.json()["groups"]]


def test_one_refused_group_refuses_the_batch(user: Client, cluster: Cluster, engine: Engine) -> None:
    batch = [
        _group("x1"),
        {"name": "x2", "roles": [{"count": 2, "requests": {"gpus": 16}}]},
        _group("x3", gpus=17),
    ]
    answer = user.post("/v1/groups/batch", json={"groups": batch})
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [
        "groups[1].roles[0].requests.gpus",
        "groups[2].gpus",
    ]
    with engine.connect() as conn:
        for table in ("groups", "units", "group_specs"):
            assert conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() == 0
        events = conn.execute(text("SELECT count(*) FROM events WHERE kind = 'Submitted'"))
        assert events.scalar_one() == 0


def test_errors_of_every_kind_name_the_index(user: Client) -> None:
    for wrong, field in (
        ({"gpus": "one"}, "groups[1].gpus"),
        ({"nonsense": 1}, "groups[1].nonsense"),
        ({"queue": "nowhere"}, "groups[1].queue"),
        ({"elastic": {}}, "groups[1].elastic.resize"),
        ({"members": 20_000}, "groups[1].members"),
        ({"roles": [{"count": 2, "min_count": 3}], "gpus": None}, "groups[1].roles[0].min_count"),
    ):
        answer = user.post("/v1/groups/batch", json={"groups": [_group("a"), _group("b") | wrong]})
        assert answer.status_code == 422, answer.text
        assert [error["field"] for error in answer.json()["errors"]] == [field], answer.text


def test_an_empty_and_an_oversized_batch_are_refused(user: Client) -> None:
    assert user.post("/v1/groups/batch", json={"groups": []}).status_code == 422
    groups = [_group("g")] * 10_001
    assert user.post("/v1/groups/batch", json={"groups": groups}).status_code == 422


def test_ten_thousand_groups_in_one_call(user: Client, engine: Engine) -> None:
    groups = [_group(f"g{number}", env={"N": str(number)}) for number in range(10_000)]
    started = time.monotonic()
    answer = user.post("/v1/groups/batch", json={"groups": groups})
    assert answer.status_code == 201
    assert time.monotonic() - started < 20
    assert len({group["id"] for group in answer.json()["groups"]}) == 10_000
    with engine.connect() as conn:
        assert (
            conn.execute(text("SELECT count(*) FROM units WHERE status = 'Pending'")).scalar_one() == 10_000
        )
        assert conn.execute(text("SELECT count(*) FROM shapes")).scalar_one() == 1
