"""Groups that wait for the end of others, or for an instant: over HTTP, with a real leader and dispatcher."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Engine, text

from service.clock import SystemClock
from service.domain.principal import KeyRole
from service.settings import Settings
from tests.integration.api.callers import Callers
from tests.integration.api.cluster import Cluster
from tests.integration.api.dependents import submit

Client = TestClient[Litestar]


@pytest.fixture
def cluster(settings: Settings, engine: Engine, redis: Redis) -> Iterator[Cluster]:
    cluster = Cluster(settings, engine, redis, gpus=8)
    yield cluster
    cluster.close()


def ok(group: str) -> dict[str, Any]:
    return {"group": group, "when": "ok"}


def not_ok(group: str) -> dict[str, Any]:
    return {"group": group, "when": "not_ok"}


def whatever(group: str) -> dict[str, Any]:
    return {"group": group, "when": "any"}


def group_of(client: Client, group: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/groups/{group}").json()
    return found


def status(client: Client, group: str) -> str:
    found: str = group_of(client, group)["status"]
    return found


def reasons(client: Client, group: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/v1/groups/{group}/reasons").json()["reasons"]
    return found


def end(cluster: Cluster, name: str, *, member: int | None = None, code: int = 0) -> None:
    """One member of a running group exits, or all."""
    cluster.machines.end(name, member=member, exit_code=code)
    cluster.settle()


# ---------------------------------------------------------------- what is met, and what never can be
@pytest.mark.parametrize(
    ("exit_code", "when", "becomes"),
    [
        (0, "ok", "Running"),
        (0, "not_ok", "Cancelled"),
        (0, "any", "Running"),
        (1, "ok", "Cancelled"),
        (1, "not_ok", "Running"),
        (1, "any", "Running"),
    ],
)
@pytest.mark.parametrize("is_late", [False, True], ids=["before the end", "after the end"])
def test_a_group_starts_or_is_cancelled_by_how_the_other_ends(
    admin: Client, cluster: Cluster, exit_code: int, when: str, becomes: str, is_late: bool
) -> None:
    first = submit(admin, "first", recovery={"on_member_loss": "fail"})
    cluster.settle()
    if is_late:
        end(cluster, "first", code=exit_code)
        second = submit(admin, "second", {"group": first, "when": when})
        cluster.settle()
    else:
        second = submit(admin, "second", {"group": first, "when": when})
        cluster.settle()
        assert status(admin, second) == "Pending"
        end(cluster, "first", code=exit_code)
    found = group_of(admin, second)
    assert found["status"] == becomes
    assert found["after"] == [{"group": first, "when": when}]
    if becomes == "Cancelled":
        assert found["cause"] == "DependencyNeverMet"
        assert first in found["message"]


def test_a_cancelled_group_is_neither_ok_nor_not_ok(admin: Client, cluster: Cluster) -> None:
    first = submit(admin, "first", gpus=99, allow_infeasible=True)
    waiting = [submit(admin, name, {"group": first, "when": name}) for name in ("ok", "not_ok", "any")]
    assert admin.delete(f"/v1/groups/{first}").status_code == 202
    cluster.settle()
    assert [status(admin, each) for each in waiting] == ["Cancelled", "Cancelled", "Running"]


def test_all_entries_must_hold(admin: Client, cluster: Cluster) -> None:
    one, two = submit(admin, "one"), submit(admin, "two")
    both = submit(admin, "both", ok(one), whatever(two))
    cluster.settle()
    end(cluster, "one")
    assert status(admin, both) == "Pending"
    [reason] = reasons(admin, both)
    assert (reason["code"], reason["holders"], reason["scope"]) == (
        "DependencyPending",
        [two],
        {"when": "any"},
    )
    end(cluster, "two")
    assert status(admin, both) == "Running"


def test_an_independent_group_ends_with_its_last_member(admin: Client, cluster: Cluster) -> None:
    shards = submit(admin, "shards", members=3, scheduling="independent")
    after = submit(admin, "after", ok(shards))
    cluster.settle()
    end(cluster, "shards", member=0)
    end(cluster, "shards", member=2)
    assert status(admin, after) == "Pending"
    end(cluster, "shards", member=1)
    assert status(admin, after) == "Running"


def test_one_failed_member_is_not_ok(admin: Client, cluster: Cluster) -> None:
    recovery = {"on_member_loss": "fail"}
    shards = submit(admin, "shards", members=2, scheduling="independent", recovery=recovery)
    well, badly = submit(admin, "well", ok(shards)), submit(admin, "badly", not_ok(shards))
    cluster.settle()
    end(cluster, "shards", member=0, code=3)
    assert {status(admin, well), status(admin, badly)} == {"Pending"}
    end(cluster, "shards", member=1)
    assert (status(admin, well), status(admin, badly)) == ("Cancelled", "Running")


def test_those_that_wait_for_a_cancelled_one_are_answered_in_turn(admin: Client, cluster: Cluster) -> None:
    first = submit(admin, "first")
    second = submit(admin, "second", not_ok(first))
    third = submit(admin, "third", ok(second))
    fourth = submit(admin, "fourth", whatever(third), whatever(first))
    cluster.settle()
    end(cluster, "first")
    assert [status(admin, each) for each in (second, third, fourth)] == ["Cancelled", "Cancelled", "Running"]
    events = admin.get(f"/v1/groups/{third}/events").json()["events"]
    assert [event["kind"] for event in events] == ["Submitted", "Cancelled"]
    assert events[-1]["cause"] == "DependencyNeverMet"
    assert events[-1]["actor"] == "muster"


def test_a_chain_of_ten_thousand_ends_at_once(admin: Client, engine: Engine) -> None:
    first = submit(admin, "first")
    batch = [{"name": "link 0", "command": ["true"], "after": [ok(first)]}]
    batch += [
        {"name": f"link {index}", "command": ["true"], "after": [{"batch_index": index - 1}]}
        for index in range(1, 10_000)
    ]
    assert admin.post("/v1/groups/batch", json={"groups": batch}).status_code == 201
    assert admin.delete(f"/v1/groups/{first}").status_code == 202
    with engine.connect() as conn:
        found = conn.execute(text("SELECT status, cause, count(*) AS n FROM units GROUP BY 1, 2")).all()
    assert {(row.status, row.cause): row.n for row in found} == {
        ("Cancelled", "Cancelled"): 1,
        ("Cancelled", "DependencyNeverMet"): 10_000,
    }


def test_ten_thousand_that_wait_for_one_are_told_at_once(admin: Client, engine: Engine) -> None:
    first = submit(admin, "first")
    batch = [
        {"name": f"g {index}", "command": ["true"], "after": [{"group": first, "when": when}]}
        for index, when in zip(range(10_000), itertools.cycle(["any", "ok"]))
    ]
    assert admin.post("/v1/groups/batch", json={"groups": batch}).status_code == 201
    assert admin.delete(f"/v1/groups/{first}").status_code == 202
    with engine.connect() as conn:
        found = conn.execute(
            text("SELECT status, open_dependencies, count(*) AS n FROM units GROUP BY 1, 2")
        ).all()
    assert {(row.status, row.open_dependencies): row.n for row in found} == {
        ("Cancelled", None): 1,
        ("Pending", None): 5_000,
        ("Cancelled", 1): 5_000,
    }


# ---------------------------------------------------------------- submit
def test_a_batch_names_its_own_groups_by_index(admin: Client, cluster: Cluster) -> None:
    batch = [
        {"name": "prepare", "command": ["true"]},
        {"name": "use", "command": ["true"], "after": [{"batch_index": 0}]},
    ]
    answer = admin.post("/v1/groups/batch", json={"groups": batch}).json()
    prepare, use = (each["id"] for each in answer["groups"])
    assert group_of(admin, use)["after"] == [{"group": prepare, "when": "ok"}]
    cluster.settle()
    assert (status(admin, prepare), status(admin, use)) == ("Running", "Pending")
    end(cluster, "prepare")
    assert status(admin, use) == "Running"


@pytest.mark.parametrize(
    ("after", "field"),
    [
        ([{"batch_index": 1}], "groups[1].after[0].batch_index"),
        ([{"batch_index": 7}], "groups[1].after[0].batch_index"),
        ([{"batch_index": 0}, {"batch_index": 0, "when": "any"}], "groups[1].after[1]"),
        ([{"when": "ok"}], "groups[1].after[0]"),
        ([{"batch_index": 0, "group": str(uuid4())}], "groups[1].after[0]"),
        ([{"group": str(uuid4())}], "groups[1].after[0].group"),
    ],
)
def test_an_entry_that_names_nothing_that_is_there_is_refused(
    admin: Client, engine: Engine, after: list[dict[str, Any]], field: str
) -> None:
    batch = [{"name": "a", "command": ["true"]}, {"name": "b", "command": ["true"], "after": after}]
    answer = admin.post("/v1/groups/batch", json={"groups": batch})
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    with engine.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM groups")).scalar_one() == 0


def test_an_index_is_for_batches(admin: Client) -> None:
    body = {"name": "a", "command": ["true"], "after": [{"batch_index": 0}]}
    answer = admin.post("/v1/groups", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "after[0].batch_index"


def test_a_group_of_somebody_else_is_as_unknown_as_one_that_is_not_there(callers: Callers) -> None:
    anna, ben = (callers.make(KeyRole.USER, user=name) for name in ("anna", "ben"))
    theirs = submit(anna, "theirs")

    def answer(group: str) -> tuple[int, str]:
        body = {"name": "a", "command": ["true"], "after": [ok(group)]}
        found = ben.post("/v1/groups", json=body)
        return found.status_code, found.json()["detail"].replace(group, "ID")

    assert answer(theirs) == answer(str(uuid4()))
    assert submit(callers.make(KeyRole.OPERATOR), "operator", ok(theirs))


def test_a_repetition_answers_the_same_group(admin: Client) -> None:
    first = submit(admin, "first")
    body = {"name": "a", "command": ["true"], "after": [ok(first)]}
    answers = [
        admin.post("/v1/groups", json=body, headers={"Idempotency-Key": "k"}).json()["id"] for _ in range(2)
    ]
    assert answers[0] == answers[1]


# ---------------------------------------------------------------- what is kept back
def test_who_waits_has_no_position_and_blocks_nobody(admin: Client, cluster: Cluster) -> None:
    assert admin.patch("/v1/queues/default", json={"order": "strict"}).status_code == 200
    first = submit(admin, "first", gpus=8)
    waits = submit(admin, "waits", ok(first), priority=9)
    later = submit(admin, "later", not_before="2999-01-01T00:00:00Z", priority=9)
    behind = submit(admin, "behind", gpus=8)
    cluster.settle()
    assert status(admin, first) == "Running"
    for each in (waits, later):
        assert admin.get(f"/v1/groups/{each}/position").json()["position"] is None
        assert group_of(admin, each)["position"] is None
    assert admin.get(f"/v1/groups/{behind}/position").json()["position"] == 1
    assert [reason["code"] for reason in reasons(admin, later)] == ["BackingOff", "InsufficientGpus"]
    scope = {"until": "2999-01-01T00:00:00+00:00", "of": "not_before"}
    assert reasons(admin, later)[0]["scope"] == scope


def test_not_before_an_instant_nothing_starts(admin: Client, cluster: Cluster) -> None:
    begin_at = SystemClock().now() + timedelta(seconds=1)
    group = submit(admin, "later", not_before=begin_at.isoformat())
    cluster.settle()
    assert status(admin, group) == "Pending"
    # The leader wakes itself: nobody rings at that instant.
    seconds = cluster.leader.seconds_to_wake()
    assert seconds is not None
    assert seconds <= 1
    Event().wait(seconds + 0.01)
    cluster.settle()
    assert status(admin, group) == "Running"
