from __future__ import annotations

from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from service.domain.principal import KeyRole
from service.domain.tree_rules import MOST_LEVELS
from tests.integration.api.callers import Callers
from tests.integration.api.cluster import Cluster

Client = TestClient[Litestar]


@pytest.fixture
def site(admin: Client) -> Client:
    """`lab` in `org`, and the queue `research` in `lab`."""
    assert admin.post("/v1/cohorts", json={"name": "org"}).status_code == 201
    lab = {"name": "lab", "parent": "org", "borrowing_limit": {"mx": 4}, "lending_limit": {"mx": 2}}
    assert admin.post("/v1/cohorts", json=lab).status_code == 201
    research = {"name": "research", "cohort": "lab", "nominal_quota": {"mx": 8}}
    assert admin.post("/v1/queues", json=research).status_code == 201
    return admin


def version(engine: Engine) -> int:
    with engine.connect() as conn:
        return int(conn.execute(text("SELECT version FROM config")).scalar_one())


def fields_of(answer: Any) -> set[str]:
    assert answer.status_code == 422, answer.text
    return {error["field"] for error in answer.json()["errors"]}


def test_a_cohort_is_made_read_changed_and_deleted(admin: Client, engine: Engine) -> None:
    before = version(engine)
    made = admin.post("/v1/cohorts", json={"name": "org", "weight": 2.5, "nominal_quota": {"mx": 4}})
    assert made.status_code == 201, made.text
    assert made.json() | {"created_at": None} == {
        "name": "org",
        "parent": None,
        "weight": 2.5,
        "nominal_quota": {"mx": 4},
        "borrowing_limit": {},
        "lending_limit": {},
        "cohorts": [],
        "queues": [],
        "total_quota": {"mx": 4},
        "used": {},
        "borrowed": {},
        "created_at": None,
    }
    assert admin.get("/v1/cohorts/org").json() == made.json()
    assert admin.get("/v1/cohorts").json() == {"cohorts": [made.json()]}

    changed = admin.patch("/v1/cohorts/org", json={"weight": 0, "nominal_quota": {"cpus": 1.5}})
    wanted = {"weight": 0, "nominal_quota": {"cpus": 1.5}, "total_quota": {"cpus": 1.5}}
    assert changed.json() == made.json() | wanted

    assert admin.delete("/v1/cohorts/org").status_code == 202
    assert admin.delete("/v1/cohorts/org").status_code == 404
    assert version(engine) == before + 3
    assert admin.post("/v1/cohorts", json={"name": "org"}).status_code == 201, "its name is free again"


def test_a_tree_is_told_with_its_members_and_totals(site: Client) -> None:
    assert site.patch("/v1/cohorts/org", json={"nominal_quota": {"mx": 1}}).status_code == 200
    org, lab = site.get("/v1/cohorts/org").json(), site.get("/v1/cohorts/lab").json()
    assert (org["cohorts"], org["queues"], org["total_quota"]) == (["lab"], [], {"mx": 9})
    assert (lab["cohorts"], lab["queues"], lab["total_quota"]) == ([], ["research"], {"mx": 8})
    assert (lab["parent"], lab["borrowing_limit"], lab["lending_limit"]) == ("org", {"mx": 4}, {"mx": 2})


@pytest.mark.parametrize(
    ("path", "change", "field"),
    [
        ("cohorts/org", {"parent": "lab"}, "parent"),
        ("cohorts/org", {"parent": "org"}, "parent"),
        ("cohorts/org", {"parent": "nowhere"}, "parent"),
        ("cohorts/org", {"borrowing_limit": {"mx": 1}}, "borrowing_limit"),
        ("cohorts/lab", {"parent": None, "borrowing_limit": {}}, "lending_limit"),
        ("cohorts/lab", {"lending_limit": {"mx": 1.5}}, "lending_limit.mx"),
        ("queues/research", {"cohort": "nowhere"}, "cohort"),
        ("queues/research", {"nominal_quota": None}, "nominal_quota"),
        ("queues/research", {"lending_limit": {"mx": 9}}, "lending_limit.mx"),
        ("queues/research", {"lending_limit": {"memory_gib": 1}}, "lending_limit.memory_gib"),
        ("queues/default", {"cohort": "lab"}, "nominal_quota"),
    ],
)
def test_a_change_that_breaks_the_tree_is_refused_by_name(
    site: Client, path: str, change: dict[str, Any], field: str
) -> None:
    before = site.get(f"/v1/{path}").json()
    assert fields_of(site.patch(f"/v1/{path}", json=change)) == {field}
    assert site.get(f"/v1/{path}").json() == before


def test_a_cohort_with_members_is_not_deleted(site: Client) -> None:
    for name, member in (("org", "cohort lab"), ("lab", "queue research")):
        refused = site.delete(f"/v1/cohorts/{name}")
        assert refused.status_code == 409
        assert refused.json()["detail"] == f"In cohort {name} there is still {member}."
    assert site.delete("/v1/queues/research").status_code == 202
    assert site.delete("/v1/cohorts/lab").status_code == 202
    assert site.delete("/v1/cohorts/org").status_code == 202


def test_a_queue_leaves_its_cohort(site: Client) -> None:
    limits = {"borrowing_limit": {"mx": 2}, "lending_limit": {"mx": 2}}
    assert site.patch("/v1/queues/research", json=limits).status_code == 200
    assert fields_of(site.patch("/v1/queues/research", json={"cohort": None})) == {*limits}
    alone = site.patch("/v1/queues/research", json={"cohort": None} | {limit: {} for limit in limits})
    assert (alone.status_code, alone.json()["cohort"]) == (200, None)
    assert site.get("/v1/cohorts/lab").json()["queues"] == []


def test_a_cohort_tells_what_it_uses_and_borrows(admin: Client, cluster: Cluster) -> None:
    model = "H100-80GB"
    for cohort in (
        {"name": "org", "nominal_quota": {model: 2}},
        {"name": "lab", "parent": "org"},
    ):
        assert admin.post("/v1/cohorts", json=cohort).status_code == 201
    kept = {"name": "kept", "cohort": "lab", "nominal_quota": {model: 1}, "lending_limit": {model: 0}}
    for queue in (kept, {"name": "q", "cohort": "lab", "nominal_quota": {model: 1}}):
        assert admin.post("/v1/queues", json=queue).status_code == 201
    group = {"name": "g", "queue": "q", "members": 3, "gpus": 1, "command": ["true"]}
    assert admin.post("/v1/groups", json=group).status_code == 201
    cluster.settle()
    lab, org = admin.get("/v1/cohorts/lab").json(), admin.get("/v1/cohorts/org").json()
    assert (lab["used"][model], lab["total_quota"]) == (3, {model: 2})
    # What `kept` keeps for itself is not there for `q`: both of org are taken.
    assert lab["borrowed"] == {model: 2}
    assert (org["used"][model], org["total_quota"], org["borrowed"]) == (3, {model: 4}, {})
    assert admin.get("/v1/queues/q").json()["borrowed"] == {model: 2}


def test_a_name_is_taken_once(site: Client) -> None:
    refused = site.post("/v1/cohorts", json={"name": "lab"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (409, "name")


def test_only_an_admin_changes_cohorts(site: Client, operator: Client, user: Client) -> None:
    for client in (operator, user):
        assert client.post("/v1/cohorts", json={"name": "c"}).status_code == 403
        assert client.patch("/v1/cohorts/org", json={"weight": 2}).status_code == 403
        assert client.delete("/v1/cohorts/org").status_code == 403
        assert client.get("/v1/cohorts/org").status_code == 200


def test_queues_of_other_tenants_are_not_named(site: Client, callers: Callers) -> None:
    theirs = {"name": "theirs", "tenant": "blue", "cohort": "lab", "nominal_quota": {"mx": 1}}
    assert site.post("/v1/queues", json=theirs).status_code == 201
    blue, red = callers.make(KeyRole.USER, tenant="blue"), callers.make(KeyRole.USER, tenant="red")
    assert blue.get("/v1/cohorts/lab").json()["queues"] == ["research", "theirs"]
    assert red.get("/v1/cohorts/lab").json()["queues"] == ["research"]
    assert red.get("/v1/cohorts/lab").json()["total_quota"] == {"mx": 9}


def test_a_cohort_does_not_take_what_is_below_it_too_deep(admin: Client) -> None:
    for tree in "ab":
        cohorts = [
            {"name": f"{tree}{level}", "parent": f"{tree}{level - 1}" if level else None}
            for level in range(MOST_LEVELS)
        ]
        assert admin.put("/v1/policy", json={"cohorts": cohorts}).status_code == 200
    assert fields_of(admin.post("/v1/cohorts", json={"name": "x", "parent": f"a{MOST_LEVELS - 1}"})) == {
        "parent"
    }
    assert fields_of(admin.patch("/v1/cohorts/b0", json={"parent": "a0"})) == {"parent"}
    assert admin.patch("/v1/cohorts/b1", json={"parent": "a0"}).status_code == 200
