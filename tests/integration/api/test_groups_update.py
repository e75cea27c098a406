"""PATCH of a group: priority, time limit, labels."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Engine, text

from service.clock import SystemClock
from service.domain.principal import KeyRole
from service.settings import Settings
from service.store.config import raise_config_version
from tests.integration.api.callers import Callers
from tests.integration.api.cluster import Cluster

Client = TestClient[Litestar]
Json = dict[str, Any]


@pytest.fixture
def cluster(settings: Settings, engine: Engine, redis: Redis) -> Iterator[Cluster]:
    cluster = Cluster(settings, engine, redis, gpus=4)
    yield cluster
    cluster.close()


def submit(client: Client, name: str, **fields: object) -> str:
    answer = client.post("/v1/groups", json={"name": name, "gpus": 1, "command": ["true"]} | fields)
    assert answer.status_code == 201, answer.text
    group_id: str = answer.json()["id"]
    return group_id


def update(client: Client, group: str, *, code: int = 200, **changes: object) -> Json:
    answer = client.patch(f"/v1/groups/{group}", json=changes)
    assert answer.status_code == code, answer.text
    found: Json = answer.json()
    return found


def group_of(client: Client, group: str) -> Json:
    found: Json = client.get(f"/v1/groups/{group}").json()
    return found


def set_policy(client: Client, **fields: object) -> None:
    assert client.patch("/v1/queues/default", json=fields).status_code == 200


def claim(engine: Engine, cluster: Cluster, group: str, *, of: str, due_at: datetime | None) -> None:
    """Keep for `group` what `of` holds, as a cycle does it."""
    del cluster
    with engine.begin() as conn:
        conn.execute(
            text(
                "INSERT INTO claims (unit_id, cause, made_at, due_at, places, redated)"
                " SELECT u.id, 'Head', now(), :due_at, a.places, 0"
                " FROM units u JOIN groups g ON g.id = u.group_id, attempts a"
                " JOIN groups h ON h.id = a.group_id"
                " WHERE g.public_id = CAST(:group AS uuid) AND h.public_id = CAST(:of AS uuid)"
            ),
            {"group": group, "of": of, "due_at": due_at},
        )


# ---------------------------------------------------------------- what waits
def test_a_raised_priority_moves_a_group_to_the_front(admin: Client, cluster: Cluster) -> None:
    submit(admin, "big", gpus=4)
    first, second = submit(admin, "first", gpus=4), submit(admin, "second", gpus=4)
    cluster.settle()
    assert [group_of(admin, each)["position"] for each in (first, second)] == [1, 2]
    assert update(admin, second, priority=5)["priority"] == 5
    cluster.settle()
    assert [group_of(admin, each)["position"] for each in (first, second)] == [2, 1]
    cluster.machines.end("big")
    cluster.settle()
    assert [group_of(admin, each)["status"] for each in (first, second)] == ["Pending", "Running"]


def test_each_change_is_told_with_who_made_it(admin: Client, callers: Callers) -> None:
    user = callers.make(KeyRole.USER, user="anna")
    group = submit(user, "g", labels={"a": "1"})
    found = update(user, group, labels={"b": "2"}, time_limit="2h")
    assert (found["labels"], found["time_limit_seconds"]) == ({"b": "2"}, 7200)
    update(admin, group, time_limit=None, priority=3)
    events = [e for e in user.get(f"/v1/groups/{group}/events").json()["events"] if e["kind"] == "Changed"]
    assert [event["actor"] for event in events] == ["anna", "admin"]
    assert [event["data"] for event in events] == [
        {"labels": {"from": {"a": "1"}, "to": {"b": "2"}}, "time_limit_seconds": {"from": None, "to": 7200}},
        {"time_limit_seconds": {"from": 7200, "to": None}, "priority": {"from": 0, "to": 3}},
    ]
    assert group_of(user, group)["time_limit_seconds"] is None


def test_a_change_to_what_is_so_already_changes_nothing(admin: Client, engine: Engine) -> None:
    group = submit(admin, "g", priority=2)

    def rows() -> object:
        with engine.connect() as conn:
            return conn.execute(text("SELECT max(version), (SELECT count(*) FROM events) FROM units")).one()

    before = rows()
    update(admin, group, priority=2, labels={}, time_limit=None)
    update(admin, group)
    assert rows() == before


def test_a_priority_may_be_named(admin: Client) -> None:
    assert admin.put("/v1/priority-classes/urgent", json={"value": 500}).status_code < 300
    group = submit(admin, "g")
    assert update(admin, group, priority="urgent")["priority"] == 500


def test_a_group_that_ended_is_not_changed(admin: Client) -> None:
    group = submit(admin, "g")
    admin.delete(f"/v1/groups/{group}")
    update(admin, group, code=409, priority=1)


def test_a_group_of_somebody_else_does_not_exist(admin: Client, callers: Callers) -> None:
    group = submit(admin, "g")
    update(callers.make(KeyRole.USER, user="ben"), group, code=404, priority=1)
    assert update(callers.make(KeyRole.OPERATOR), group, priority=1)["priority"] == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"priority": 1_000_001}, "priority"),
        ({"priority": None}, "priority"),
        ({"priority": "no-such-class"}, "priority"),
        ({"time_limit": "soon"}, "time_limit"),
        ({"time_limit": 0}, "time_limit"),
        ({"labels": {"a b": "x"}}, "labels.a b"),
        ({"name": "x"}, "name"),
    ],
)
def test_a_change_that_is_none_is_refused(admin: Client, changes: Json, field: str) -> None:
    group = submit(admin, "g")
    answer = admin.patch(f"/v1/groups/{group}", json=changes)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_the_bounds_of_the_queue_are_for_what_is_raised(admin: Client, callers: Callers) -> None:
    user = callers.make(KeyRole.USER, user="anna")
    set_policy(admin, highest_priority={"user": 10}, max_time_limit="1h")
    group = submit(user, "g", time_limit="30m")
    assert update(user, group, code=422, priority=11)["errors"][0]["field"] == "priority"
    assert update(user, group, code=422, time_limit="2h")["errors"][0]["field"] == "time_limit"
    assert update(user, group, code=422, time_limit=None)["errors"][0]["field"] == "time_limit"
    update(admin, group, priority=50)
    assert update(user, group, priority=40, time_limit="1h")["priority"] == 40


# ---------------------------------------------------------------- what runs
def test_a_limit_runs_from_admission_whenever_it_is_set(admin: Client, cluster: Cluster) -> None:
    group = submit(admin, "g")
    cluster.settle()
    admitted_at = datetime.fromisoformat(group_of(admin, group)["admitted_at"])
    found = update(admin, group, time_limit="1h")
    assert datetime.fromisoformat(found["time_limit_at"]) == admitted_at + timedelta(hours=1)
    found = update(admin, group, time_limit="3h")
    assert datetime.fromisoformat(found["time_limit_at"]) == admitted_at + timedelta(hours=3)
    assert update(admin, group, time_limit=None)["time_limit_at"] is None


def test_a_limit_that_is_over_at_once_ends_what_runs(admin: Client, cluster: Cluster, engine: Engine) -> None:
    group = submit(admin, "g", time_limit="4h")
    cluster.settle()
    with engine.begin() as conn:
        conn.execute(text("UPDATE attempts SET admitted_at = admitted_at - interval '2 hours'"))
    update(admin, group, time_limit="1h")
    cluster.settle()
    found = group_of(admin, group)
    assert (found["status"], found["cause"]) == ("Failed", "TimeLimit")


@pytest.mark.parametrize(
    ("limit", "code"), [("30m", 200), ("1h", 200), ("59m", 200), ("2h", 409), (None, 409)]
)
def test_an_owner_does_not_reach_across_a_claim(
    admin: Client, callers: Callers, cluster: Cluster, engine: Engine, limit: str | None, code: int
) -> None:
    user = callers.make(KeyRole.USER, user="anna")
    group = submit(user, "g", gpus=4, time_limit="10m", checkpoint={"grace": 0})
    head = submit(admin, "head", gpus=4)
    cluster.settle()
    admitted_at = datetime.fromisoformat(group_of(user, group)["admitted_at"])
    with engine.begin() as conn:
        conn.execute(text("DELETE FROM claims"))
    claim(engine, cluster, head, of=group, due_at=admitted_at + timedelta(hours=1))
    update(user, group, code=code, time_limit=limit)
    assert update(admin, group, time_limit=limit)["time_limit_at"] == group_of(user, group)["time_limit_at"]


def test_a_claim_without_a_date_is_not_put_off_either(
    admin: Client, callers: Callers, cluster: Cluster, engine: Engine
) -> None:
    user = callers.make(KeyRole.USER, user="anna")
    group = submit(user, "g", gpus=4, time_limit="10m")
    head = submit(admin, "head", gpus=4)
    cluster.settle()
    with engine.begin() as conn:
        conn.execute(text("DELETE FROM claims"))
    claim(engine, cluster, head, of=group, due_at=None)
    update(user, group, code=409, time_limit="11m")
    assert update(user, group, time_limit="9m")["time_limit_seconds"] == 540


def test_a_plan_of_before_does_not_commit_after_the_limit_of_something_admitted_moved(
    admin: Client, cluster: Cluster, engine: Engine
) -> None:
    """L2: it may keep places from a date on which they are not free any more."""
    group = submit(admin, "g", gpus=2, time_limit="10m")
    cluster.settle()
    other = submit(admin, "other", gpus=2)
    assert cluster.leader.read_and_plan()
    update(admin, group, time_limit="20m")
    assert cluster.leader.reserve()
    assert not cluster.leader.commit()
    assert group_of(admin, other)["status"] == "Pending"
    cluster.settle()
    assert group_of(admin, other)["status"] == "Running"


def test_a_change_of_what_waits_is_no_change_of_the_configuration(admin: Client, engine: Engine) -> None:
    group = submit(admin, "g")

    def version() -> object:
        with engine.connect() as conn:
            return conn.execute(text("SELECT version FROM config")).scalar_one()

    before = version()
    update(admin, group, time_limit="1h", priority=7, labels={"a": "b"})
    assert version() == before


def test_a_group_that_is_admitted_meanwhile_is_changed_as_one_that_runs(
    admin: Client, cluster: Cluster, engine: Engine
) -> None:
    """The change waits behind the commit of a cycle, finds something admitted, and begins anew."""
    group = submit(admin, "g")
    assert cluster.leader.read_and_plan()
    assert cluster.leader.reserve()
    with ThreadPoolExecutor() as pool, engine.connect() as blocker:
        transaction = blocker.begin()
        # It keeps the cycle from its commit.
        raise_config_version(blocker)
        commit = pool.submit(cluster.leader.commit)
        change = pool.submit(update, admin, group, time_limit="1h")
        assert change.result(20)["time_limit_seconds"] == 3600
        transaction.rollback()
        commit.result(20)
    cluster.settle()
    found = group_of(admin, group)
    since = datetime.fromisoformat(found["admitted_at"])
    assert datetime.fromisoformat(found["time_limit_at"]) - since == timedelta(hours=1)
    assert SystemClock().now() - since < timedelta(minutes=5)
