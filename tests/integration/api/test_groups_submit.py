"""Submitting groups over HTTP, and reading them back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from service.store.inventory_rows import ensure_pool
from tests.integration.api.cluster import Cluster
from tests.integration.api.rows import add_nodes

Client = TestClient[Litestar]

SHORT = {"name": "train", "members": 2, "gpus": 1, "command": ["true"]}
ROLE = {"name": "worker", "count": 2, "requests": {"gpus": 1}}
LONG = {"name": "train", "roles": [ROLE]}


def test_a_submitted_group_is_pending_and_can_be_read(user: Client) -> None:
    answer = user.post("/v1/groups", json=SHORT)
    assert answer.status_code == 201, answer.text
    group = answer.json()
    assert answer.headers["location"] == f"/v1/groups/{group['id']}"
    assert group["status"] == "Pending"
    assert group["units"] == {"Pending": 1}
    assert (group["wanted_members"], group["wanted_gpus"]) == (2, 2)
    assert (group["attempt"], group["generation"], group["places"]) == (1, None, [])
    assert (group["owner"], group["tenant"], group["queue"]) == ("user", "default", "default")
    assert user.get(f"/v1/groups/{group['id']}").json() == group


def test_every_field_comes_back(user: Client) -> None:
    body = {
        "name": "sft 7b",
        "queue": "default",
        "priority": 100,
        "scheduling": "gang",
        "roles": [
            {
                "name": "launcher",
                "count": 1,
                "requests": {"gpus": 0, "cpus": 0.5, "memory_gib": 1.5},
                "command": ["torchrun"],
            },
            {
                "name": "worker",
                "count": 6,
                "min_count": 6,
                "requests": {"gpus": 1, "cpus": 8, "memory_gib": 64},
                "gpu": {"models": ["H100-80GB", "A100-80GB"], "min_memory_gib": 80, "fallback_after": "30m"},
                "node_labels": {"zone": "a"},
                "command": ["python", "train.py"],
                "workdir": "/data/run1",
                "image": "registry/image:1",
                "env": {"LR": "1e-4"},
                "ready": "started",
            },
        ],
        "topology": {"required": "rack"},
        "elastic": None,
        "time_limit": "4h",
        "start_timeout": "10m",
        "stall_timeout": None,
        "recovery": {"on_member_loss": "fail", "max_restarts": 1, "backoff": "1m30s", "seat_timeout": 5},
        "checkpoint": {"grace": "60s"},
        "preemptible": False,
        "labels": {"team": "vision"},
        "after": [],
    }
    group = user.post("/v1/groups", json=body).json()
    assert (group["name"], group["priority"], group["topology_required"]) == ("sft 7b", 100, "rack")
    assert (group["time_limit_seconds"], group["start_timeout_seconds"], group["grace_seconds"]) == (
        14_400,
        600,
        60,
    )
    assert group["recovery"] == {
        "on_member_loss": "fail",
        "max_restarts": 1,
        "backoff_seconds": 90,
        "seat_timeout_seconds": 5,
    }
    assert group["labels"] == {"team": "vision"}
    assert group["preemptible"] is False
    launcher, worker = group["roles"]
    assert launcher["requests"] == {"gpus": 0, "cpus": 0.5, "memory_gib": 1.5}
    assert worker == {
        "name": "worker",
        "count": 6,
        "min_count": 6,
        "requests": {"gpus": 1, "cpus": 8, "memory_gib": 64},
        "gpu": {
            "models": ["H100-80GB", "A100-80GB"],
            "min_memory_gib": 80,
            "fallback_after_seconds": 1800,
        },
        "node_labels": {"zone": "a"},
        "slice": None,
        "command": ["python", "train.py"],
        "workdir": "/data/run1",
        "image": "registry/image:1",
        "env": {"LR": "1e-4"},
        "secrets": [],
        "ready": "started",
    }


@pytest.mark.parametrize(("gpus", "share"), [(0, 1), (1, 1), (8, 8)])
def test_a_member_takes_a_cpu_and_a_gib_for_each_gpu(user: Client, gpus: int, share: int) -> None:
    group = user.post("/v1/groups", json={"name": "g", "gpus": gpus}).json()
    assert group["roles"][0]["requests"] == {"gpus": gpus, "cpus": share, "memory_gib": share}


def test_an_independent_group_is_one_row_for_all_its_members(user: Client, engine: Engine) -> None:
    body = {"name": "shards", "scheduling": "independent", "members": 10_000, "gpus": 1}
    group = user.post("/v1/groups", json=body).json()
    assert group["units"] == {"Pending": 10_000}
    assert (group["attempt"], group["generation"]) == (None, None)
    with engine.connect() as conn:
        rows = conn.execute(text("SELECT first_index, last_index, status FROM units")).all()
    assert [tuple(row) for row in rows] == [(0, 9_999, "Pending")]


def test_equal_shapes_are_stored_once(user: Client, engine: Engine) -> None:
    for name in ("a", "b", "c"):
        user.post("/v1/groups", json=SHORT | {"name": name, "env": {"NAME": name}})
    user.post("/v1/groups", json=SHORT | {"gpus": 2})
    with engine.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM shapes")).scalar_one() == 2


_BROKEN: list[tuple[dict[str, Any], set[str]]] = [
    ({"roles": [ROLE | {"min_count": 3}]}, {"roles[0].min_count"}),
    ({"roles": [ROLE | {"min_count": 1}]}, {"roles[0].min_count"}),
    ({"roles": [ROLE, ROLE]}, {"roles[0].name", "roles[1].name"}),
    ({"roles": [ROLE | {"requests": {}, "gpu": {"models": ["X"]}}]}, {"roles[0].gpu"}),
    ({"roles": [ROLE | {"env": {"MUSTER_MEMBER": "1"}}]}, {"roles[0].env.MUSTER_MEMBER"}),
    ({"roles": [ROLE | {"env": {"RANK": "0"}}]}, {"roles[0].env.RANK"}),
    (
        {"roles": [ROLE | {"secrets": {"CUDA_VISIBLE_DEVICES": "0"}}]},
        {"roles[0].secrets.CUDA_VISIBLE_DEVICES"},
    ),
    ({"roles": [ROLE | {"workdir": "../x"}]}, {"roles[0].workdir"}),
    ({"roles": [ROLE | {"workdir": "~/x"}]}, {"roles[0].workdir"}),
    ({"roles": [ROLE | {"env": {"A": "1"}, "secrets": {"A": "2"}}]}, {"roles[0].secrets.A"}),
    ({"roles": [ROLE | {"count": 16_385}]}, {"roles[0].count"}),
    ({"scheduling": "independent", "roles": [ROLE | {"min_count": 2}]}, {"roles[0].min_count"}),
    ({"scheduling": "independent", "topology": {"required": "rack"}}, {"topology.required"}),
    ({"scheduling": "independent", "roles": [ROLE, ROLE | {"name": "other"}]}, {"roles"}),
    ({"queue": "nowhere"}, {"queue"}),
    ({"time_limit": 0}, {"time_limit"}),
    ({"members": 3}, {"members"}),
    ({"elastic": {"resize": "at_start"}}, {"elastic"}),
    ({"after": [{"group": "x", "when": "ok"}]}, {"after[0].group"}),
    ({"after": [{"when": "never"}]}, {"after[0].when"}),
    ({"not_before": "tomorrow"}, {"not_before"}),
    ({"not_before": "2030-01-01T00:00:00"}, {"not_before"}),
    ({"not_before": "0001-01-01T00:00:00+14:00"}, {"not_before"}),
    (
        {"scheduling": "independent", "elastic": {"resize": "while_running"}, "roles": [ROLE]},
        {"elastic"},
    ),
    (
        {"elastic": {"resize": "while_running"}, "roles": [ROLE | {"min_count": 3}]},
        {"roles[0].min_count"},
    ),
    ({"stall_timeout": "1m"}, {"stall_timeout"}),
    ({"scheduling": "independent", "topology": {"preferred": "rack"}}, {"topology.preferred"}),
    (
        {"scheduling": "independent", "roles": [ROLE | {"slice": {"level": "host", "size": 1}}]},
        {"roles[0].slice"},
    ),
    ({"roles": [ROLE | {"slice": {"level": "host", "size": 17}}]}, {"roles[0].slice.size"}),
    *(
        (
            {"roles": [ROLE | {"gpu": {"models": models, "fallback_after": after}}]},
            {"roles[0].gpu.fallback_after"},
        )
        for models, after in (
            ([], 60),
            (["X"], 60),
            (["X", "X"], 60),
            ([*"ABC"], "184d"),
            ([*"ABCDEFGHI"], 1),
        )
    ),
    ({"recovery": {"on_member_loss": "continue"}}, {"recovery.on_member_loss"}),
    ({"roles": [ROLE | {"ready": "reported"}]}, {"roles[0].ready"}),
    (
        {"roles": [ROLE | {"min_count": 3}, ROLE | {"name": "b", "min_count": 9}]},
        {"roles[0].min_count", "roles[1].min_count"},
    ),
]


def test_an_elastic_group_says_what_its_application_can_do(user: Client) -> None:
    elastic = {"resize": "while_running", "resumes_from_checkpoint": True}
    body = LONG | {"elastic": elastic, "roles": [ROLE | {"count": 4, "min_count": 2}]}
    group = user.post("/v1/groups", json=body).json()
    assert (group["elastic"], group["wanted_members"], group["present_members"]) == (elastic, 4, 0)
    assert [(role["count"], role["min_count"]) for role in group["roles"]] == [(4, 2)]
    again = user.get(f"/v1/groups/{group['id']}").json()
    assert (again["elastic"], again["roles"]) == (elastic, group["roles"])


def test_every_broken_rule_is_named(user: Client, subtests: pytest.Subtests) -> None:
    for change, fields in _BROKEN:
        with subtests.test(fields=fields, change=change):
            answer = user.post("/v1/groups", json=LONG | change)
            assert answer.status_code == 422, answer.text
            assert {error["field"] for error in answer.json()["errors"]} == fields
            assert user.get("/v1/groups").json()["groups"] == []


_WRONG: list[tuple[dict[str, Any], str]] = [
    ({"members": "four"}, "members"),
    ({"members": 0}, "members"),
    ({"members": 10**30}, "members"),
    ({"gpus": -1}, "gpus"),
    ({"gpus": 1.5}, "gpus"),
    ({"cpus": 1e300}, "cpus"),
    ({"priority": 2**40}, "priority"),
    ({"name": ""}, "name"),
    ({"name": "a\nb"}, "name"),
    ({"name": "a\u0000b"}, "name"),
    ({"command": ["a\u0000b"]}, "command"),
    ({"command": [""]}, "command[0]"),
    ({"command": ["  ", "x"]}, "command[0]"),
    ({"env": {"A": "1", "B": 2}}, "env.B"),
    ({"env": {"A": "1", "B-C": "2"}}, "env.B-C"),
    ({"labels": {"team": "v", "a b": "1"}}, "labels.a b"),
    ({"labels": {"team": 5}}, "labels.team"),
    ({"env": {"A": "a\u0000b"}}, "env"),
    ({"env": {"A B": "1"}}, "env"),
    ({"labels": {"k": "a\u0000b"}}, "labels"),
    ({"time_limit": "soon"}, "time_limit"),
    ({"time_limit": "999999999d"}, "time_limit"),
    ({"user": "somebody"}, "user"),
    ({"owner": "somebody"}, "owner"),
    ({"queue": "a\u0000b"}, "queue"),
    ({"scheduling": "both"}, "scheduling"),
    ({"gpu": {"model": "X"}}, "gpu.model"),
]


def test_values_of_the_wrong_kind_or_size_are_named(user: Client, subtests: pytest.Subtests) -> None:
    for change, field in _WRONG:
        with subtests.test(field=field, change=change):
            answer = user.post(
                "/v1/groups", content=json.dumps(SHORT | change), headers={"content-type": "application/json"}
            )
            assert 400 <= answer.status_code < 500, answer.text
            assert any(error["field"].startswith(field) for error in answer.json()["errors"]), answer.text


def test_a_short_form_names_its_own_fields(user: Client, cluster: Cluster) -> None:
    answer = user.post("/v1/groups", json=SHORT | {"members": 16_385})
    assert [error["field"] for error in answer.json()["errors"]] == ["members"]
    answer = user.post("/v1/groups", json=SHORT | {"workdir": "../x", "env": {"RANK": "0"}})
    assert [error["field"] for error in answer.json()["errors"]] == ["workdir", "env.RANK"]
    answer = user.post("/v1/groups", json=SHORT | {"gpus": 5})
    assert [error["field"] for error in answer.json()["errors"]] == ["gpus"]
    assert "4" in answer.json()["detail"]


_TOO_MUCH: list[tuple[dict[str, Any], str]] = [
    ({"requests": {"gpus": 5}}, "roles[0].requests.gpus"),
    ({"requests": {"gpus": 1, "cpus": 65}}, "roles[0].requests.cpus"),
    ({"requests": {"gpus": 1, "memory_gib": 513}}, "roles[0].requests.memory_gib"),
    ({"gpu": {"models": ["A100-40GB"]}}, "roles[0].gpu.models"),
    ({"gpu": {"min_memory_gib": 81}}, "roles[0].gpu.min_memory_gib"),
    ({"node_labels": {"zone": "a"}}, "roles[0].node_labels"),
]


def test_what_no_node_could_hold_is_refused_unless_allowed(
    user: Client, cluster: Cluster, subtests: pytest.Subtests
) -> None:
    for role, field in _TOO_MUCH:
        with subtests.test(field=field, role=role):
            body = {"name": "big", "roles": [ROLE | role]}
            answer = user.post("/v1/groups", json=body)
            assert answer.status_code == 422
            assert answer.json()["type"] == "/problems/infeasible-request"
            assert [error["field"] for error in answer.json()["errors"]] == [field]
            assert user.post("/v1/groups", json=body | {"allow_infeasible": True}).status_code == 201


@pytest.mark.parametrize(
    ("allowed", "asked", "field", "words"),
    [
        ({"flavors": ["A100-40GB"]}, {}, "gpu.models", "there is: nothing like it"),
        ({"flavors": ["A100-40GB"]}, {"gpu": {"models": ["H100-80GB"]}}, "gpu.models", "H100-80GB"),
        ({"flavors": []}, {}, "gpu.models", "nothing like it"),
        ({"pools": ["elsewhere"]}, {}, "queue", "only the pools elsewhere"),
        ({"pools": ["elsewhere"]}, {"gpus": 0}, "queue", "there are nodes in: p1"),
        ({"pools": []}, {}, "queue", "no pool"),
        ({"pools": ["p2"]}, {"gpus": 3}, "gpus", "the most that could be met is 2"),
        ({"pools": ["p2"]}, {"topology": {"required": "host"}}, "topology.required", "there is: box"),
    ],
)
def test_what_its_queue_does_not_let_it_use_counts_as_not_there(
    admin: Client,
    user: Client,
    engine: Engine,
    cluster: Cluster,
    allowed: dict[str, Any],
    asked: dict[str, Any],
    field: str,
    words: str,
) -> None:
    with engine.begin() as conn:
        pool_id = ensure_pool(conn, "p2", launcher="simulated", levels=["box"])
        add_nodes(conn, pool_id, {"small": (2, "H100-80GB")})
    admin.post("/v1/queues", json={"name": "q", **allowed}).raise_for_status()
    assert user.post("/v1/groups", json=SHORT | asked).status_code in (201, 422)
    answer = user.post("/v1/groups", json=SHORT | asked | {"queue": "q"})
    assert answer.status_code == 422, answer.text
    [error] = answer.json()["errors"]
    assert error["field"] == field
    assert words in error["message"]


def test_a_group_too_large_as_a_whole_is_accepted(user: Client, cluster: Cluster) -> None:
    assert user.post("/v1/groups", json=SHORT | {"members": 100}).status_code == 201


def test_a_level_that_no_pool_has_is_refused_once_there_is_a_pool(user: Client, cluster: Cluster) -> None:
    for field in ("required", "preferred"):
        answer = user.post("/v1/groups", json=SHORT | {"slice": {"level": "island", "size": 1}})
        assert [error["field"] for error in answer.json()["errors"]] == ["slice.level"]
        answer = user.post("/v1/groups", json=SHORT | {"topology": {field: "island"}})
        assert [error["field"] for error in answer.json()["errors"]] == [f"topology.{field}"]
        assert user.post("/v1/groups", json=SHORT | {"topology": {field: "host"}}).status_code == 201


def test_a_queue_of_another_tenant_looks_as_if_it_were_not_there(admin: Client, user: Client) -> None:
    admin.post("/v1/queues", json={"name": "theirs", "tenant": "other"}).raise_for_status()
    refused = user.post("/v1/groups", json=SHORT | {"queue": "theirs"})
    unknown = user.post("/v1/groups", json=SHORT | {"queue": "nobodys"})
    assert refused.status_code == unknown.status_code == 422
    assert refused.json()["detail"].replace("theirs", "nobodys") == unknown.json()["detail"]
    assert admin.post("/v1/groups", json=SHORT | {"queue": "theirs"}).status_code == 201


def test_secrets_and_sensitive_variables_never_come_back(user: Client, engine: Engine) -> None:
    body = SHORT | {"env": {"API_TOKEN": "VALUE-TWO", "MODE": "train"}, "secrets": {"REG": "VALUE-ONE"}}
    answer = user.post("/v1/groups", json=body)
    role = answer.json()["roles"][0]
    assert role["env"] == {"API_TOKEN": "***", "MODE": "train"}
    assert role["secrets"] == ["REG"]
    group_id = answer.json()["id"]
    shown = [answer, user.get("/v1/groups"), *(user.get(f"/v1/groups/{group_id}{part}") for part in PARTS)]
    assert not [each for each in shown if "VALUE-" in each.text]
    with engine.connect() as conn:
        rows = conn.execute(text("SELECT spec::text || secrets::text FROM group_specs")).scalars().all()
    assert rows
    assert "VALUE-" not in "".join(rows)


PARTS = ("", "/events", "/members", "/reasons", "/position")
