"""A whole tree of queues, cohorts and priority classes applied at once, and given back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from tests.integration.api.policies import mended, policies

Client = TestClient[Litestar]

POLICY: dict[str, Any] = {
    "priority_classes": [{"name": "urgent", "value": 1000}],
    "cohorts": [
        {"name": "lab", "parent": "org", "lending_limit": {"mx": 2}},
        {"name": "org", "weight": 2, "nominal_quota": {"mx": 4}},
    ],
    "queues": [
        {"name": "default"},
        {"name": "research", "cohort": "lab", "nominal_quota": {"mx": 8}, "max_time_limit": "1d"},
    ],
}


def apply(client: Client, policy: dict[str, Any], **query: bool) -> Any:
    return client.put("/v1/policy", json=policy, params={key: "true" for key, said in query.items() if said})


def applied(client: Client, policy: dict[str, Any], **query: bool) -> list[tuple[str, str, str]]:
    answer = apply(client, policy, **query)
    assert answer.status_code == 200, answer.text
    return [(each["change"], each["kind"], each["name"]) for each in answer.json()["changes"]]


def fields_of(answer: Any, status: int = 422) -> list[str]:
    assert answer.status_code == status, answer.text
    return [error["field"] for error in answer.json()["errors"]]


def books(engine: Engine) -> tuple[int, int]:
    """The version of the configuration, and how many events there are."""
    with engine.connect() as conn:
        query = text("SELECT (SELECT version FROM config), (SELECT count(*) FROM events)")
        return tuple(conn.execute(query).one())


def test_a_tree_is_applied_and_given_back(admin: Client, engine: Engine) -> None:
    version, events = books(engine)
    assert applied(admin, POLICY) == [
        ("created", "priority_class", "urgent"),
        ("created", "cohort", "lab"),
        ("created", "cohort", "org"),
        ("created", "queue", "research"),
    ]
    assert admin.get("/v1/policy").json() == POLICY
    assert books(engine) == (version + 1, events + 4)

    # The same again is nothing, not even a new version, and neither is what was given back.
    for again in (POLICY, admin.get("/v1/policy").json()):
        answer = apply(admin, again, prune=True).json()
        assert answer == {"is_dry_run": False, "changes": [], "unchanged": 5}
    assert books(engine) == (version + 1, events + 4)


def test_changes_are_told_field_by_field(admin: Client) -> None:
    applied(admin, POLICY)
    research = {"name": "research", "cohort": "org", "nominal_quota": {"mx": 8}, "weight": 3}
    answer = apply(admin, {"queues": [research]}).json()
    assert answer["changes"] == [
        {
            "kind": "queue",
            "name": "research",
            "change": "changed",
            "fields": {
                "cohort": {"before": "lab", "after": "org"},
                "max_time_limit": {"before": "1d", "after": None},
                "weight": {"before": None, "after": 3},
            },
        }
    ]
    assert admin.get("/v1/queues/research").json()["max_time_limit"] is None


def test_what_is_not_named_stays_unless_it_is_pruned(admin: Client) -> None:
    applied(admin, POLICY)
    rest = {"queues": [{"name": "default"}], "cohorts": [{"name": "org"}]}
    assert applied(admin, rest) == [("changed", "cohort", "org")]
    assert applied(admin, rest, prune=True) == [
        ("deleted", "priority_class", "urgent"),
        ("deleted", "cohort", "lab"),
        ("deleted", "queue", "research"),
    ]
    assert admin.get("/v1/policy").json() == {"priority_classes": [], **rest}


def test_a_dry_run_tells_and_changes_nothing(admin: Client, engine: Engine) -> None:
    before = books(engine)
    answer = apply(admin, POLICY, dry_run=True)
    assert answer.json()["is_dry_run"] is True
    assert len(answer.json()["changes"]) == 4
    assert books(engine) == before
    assert admin.get("/v1/queues/research").status_code == 404
    broken = {"queues": [{"name": "q", "cohort": "nowhere", "nominal_quota": {}}]}
    assert fields_of(apply(admin, broken, dry_run=True)) == ["queues[0].cohort"]


def test_every_error_names_its_place_and_nothing_is_changed(admin: Client) -> None:
    applied(admin, POLICY)
    wrong = {
        "cohorts": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}, {"name": "org"}],
        "queues": [
            {"name": "new", "cohort": "org", "nominal_quota": {}},
            {
                "name": "research",
                "cohort": "lab",
                "nominal_quota": {"mx": 8},
                "lending_limit": {"mx": 9},
                "limit": {"mx": 1},
            },
        ],
    }
    assert fields_of(apply(admin, wrong)) == [
        "cohorts[0].parent",
        "cohorts[1].parent",
        "queues[1].nominal_quota.mx",
        "queues[1].limit.mx",
        "queues[1].lending_limit.mx",
    ]
    assert admin.get("/v1/policy").json() == POLICY


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        ({"queues": [{"name": "q"}, {"name": "q"}]}, ["queues[1].name"]),
        ({"cohorts": [{"name": "c"}, {"name": "c"}]}, ["cohorts[1].name"]),
        ({"queues": [{"name": "q", "limit": {"mx": 0.5}}]}, ["queues[0].limit.mx"]),
        ({"queues": [{"name": "q", "limit": {"mx": -1}}]}, ["queues[0].limit.mx"]),
        ({"queues": [{"nominal_quota": {}}]}, ["queues[0].name"]),
        ({"queues": [{"name": "q", "quota": {}}]}, ["queues[0].quota"]),
        ({"cohort": []}, ["cohort"]),
        ({"priority_classes": [{"name": "5", "value": 1}]}, ["priority_classes[0].name"]),
    ],
)
def test_what_cannot_be_read_names_its_place(
    admin: Client, policy: dict[str, Any], fields: list[str]
) -> None:
    assert fields_of(apply(admin, policy)) == fields


def test_pruning_what_is_needed_is_refused(admin: Client) -> None:
    applied(admin, POLICY)
    group = {"name": "g", "queue": "research", "gpus": 1, "command": ["true"]}
    assert admin.post("/v1/groups", json=group).status_code == 201
    rest = {"queues": [{"name": "default"}]}
    for query in ({"prune": True}, {"prune": True, "dry_run": True}):
        assert fields_of(apply(admin, rest, **query), 409) == ["queue research"]
    assert admin.get("/v1/policy").json() == POLICY


def test_only_an_admin_reads_and_applies(operator: Client, user: Client) -> None:
    for client in (operator, user):
        assert client.get("/v1/policy").status_code == 403
        assert apply(client, {}).status_code == 403


def test_random_trees_come_back_as_they_were(admin: Client) -> None:
    @given(policies.map(mended))
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    def comes_back(policy: dict[str, Any]) -> None:
        answer = apply(admin, policy, prune=True)
        assert answer.status_code == 200, answer.text
        kept = admin.get("/v1/policy").json()
        assert {each["name"] for each in kept["queues"]} == {each["name"] for each in policy["queues"]}
        for same in (policy, kept):
            assert applied(admin, same, prune=True) == []
        assert admin.get("/v1/policy").json() == kept
        for each in policy["queues"]:
            shown = admin.get(f"/v1/queues/{each['name']}").json()
            for field in ("nominal_quota", "limit", "lending_limit", "highest_priority"):
                assert shown[field] == (each.get(field) if field == "nominal_quota" else each.get(field, {}))

    comes_back()


SCHEDULING = {"reserve_depth": "all", "guard": "12h", "fair_share_price": 500, "restart_cost": "1m"}


def test_how_the_cluster_decides_is_applied_with_the_rest(admin: Client, engine: Engine) -> None:
    version, events = books(engine)
    policy = {**POLICY, "scheduling": SCHEDULING}
    assert applied(admin, policy, dry_run=True)[0] == ("created", "scheduling", "cluster")
    assert "scheduling" not in admin.get("/v1/policy").json()
    assert books(engine) == (version, events)

    assert applied(admin, policy)[0] == ("created", "scheduling", "cluster")
    assert admin.get("/v1/policy").json() == policy
    assert books(engine) == (version + 1, events + 5)
    assert apply(admin, policy, prune=True).json()["changes"] == []

    # All of it in the place of all of it; a file without the part leaves it as it is.
    (change,) = apply(admin, {"scheduling": {"guard": 3600, "reserve_depth": "all"}}).json()["changes"]
    assert (change["change"], change["fields"]) == (
        "changed",
        {
            "fair_share_price": {"before": 500, "after": None},
            "guard": {"before": "12h", "after": "1h"},
            "restart_cost": {"before": "1m", "after": None},
        },
    )
    assert applied(admin, POLICY) == []
    assert applied(admin, POLICY, prune=True) == [("deleted", "scheduling", "cluster")]
    assert applied(admin, {"scheduling": {"half_life": 0}}) == [("created", "scheduling", "cluster")]
    assert applied(admin, {"scheduling": {}}) == [("deleted", "scheduling", "cluster")]


def test_what_is_wrong_with_how_the_cluster_decides_is_named(admin: Client, engine: Engine) -> None:
    before = books(engine)
    for said, field, sentence in (
        ({"reserve_depth": -1}, "reserve_depth", "Must be at least 0."),
        ({"reserve_depth": "some"}, "reserve_depth", "'some' is none of the values that it may have."),
        ({"guard": 0}, "guard", "Must be at least one second."),
        ({"resize_interval": "0s"}, "resize_interval", "Must be at least one second."),
        ({"half_life": "20y"}, "half_life", "Write 90s, 10m, 4h, 1h30m or 2d, or a number of seconds."),
        ({"half_life": "9999d"}, "half_life", "Must be at most 315360000 seconds (ten years)."),
        ({"gard": "1h"}, "gard", "There is no such field."),
    ):
        answer = apply(admin, {"scheduling": said})
        assert fields_of(answer) == [f"scheduling.{field}"]
        assert answer.json()["errors"][0]["message"] == sentence
    assert books(engine) == before
