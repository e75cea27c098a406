"""Positions and reasons, with and without Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Engine, text

from service.api.app import create_app
from service.clock import SystemClock
from service.domain.principal import KeyRole
from service.inventory.client import make_client
from service.settings import Settings
from tests.integration.api.callers import Callers
from tests.integration.api.cluster import Cluster

Client = TestClient[Litestar]


def _submit(client: Client, name: str = "g", **fields: Any) -> str:
    answer = client.post("/v1/groups", json={"name": name, "gpus": 1, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _reasons(client: Client, group_id: str) -> dict[str, Any]:
    answer = client.get(f"/v1/groups/{group_id}/reasons")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def _codes(client: Client, group_id: str) -> list[str]:
    return [reason["code"] for reason in _reasons(client, group_id)["reasons"]]


def test_before_the_first_cycle_it_waits_to_be_looked_at(user: Client) -> None:
    group_id = _submit(user)
    answer = _reasons(user, group_id)
    assert [reason["code"] for reason in answer["reasons"]] == ["PendingEvaluation"]
    assert (answer["position"], answer["cycle_id"], answer["is_waiting"]) == (None, None, True)
    assert user.get(f"/v1/groups/{group_id}/position").json()["position"] is None


def test_a_waiting_group_has_its_position_and_numbers(user: Client, cluster: Cluster) -> None:
    running = _submit(user, members=3)
    cluster.settle()
    first, second = _submit(user, members=2), _submit(user, members=4)
    cluster.settle()
    assert _codes(user, running) == []
    assert user.get(f"/v1/groups/{running}/position").json()["position"] is None
    for group_id, need, position in ((first, 2, 1), (second, 4, 2)):
        answer = _reasons(user, group_id)
        (reason,) = answer["reasons"]
        assert (reason["code"], reason["need"], reason["have"]) == ("InsufficientGpus", need, 1)
        assert str(need) in reason["message"]
        assert answer["position"] == position
        assert reason["since"] >= user.get(f"/v1/groups/{group_id}").json()["submitted_at"]
        standing = user.get(f"/v1/groups/{group_id}/position").json()
        assert (standing["position"], standing["overall_position"]) == (position, position)
        assert (standing["queue"], standing["queue_length"]) == ("default", 2)
        assert user.get(f"/v1/groups/{group_id}").json()["position"] == position


def test_what_kept_others_before_it_waited_did_not_keep_it(
    user: Client, engine: Engine, cluster: Cluster
) -> None:
    _submit(user, gpus=4)
    cluster.settle()
    _submit(user, members=2)
    cluster.settle()
    back = _submit(user, members=2)
    began = datetime.fromisoformat(user.get(f"/v1/groups/{back}").json()["submitted_at"])
    since = began + timedelta(milliseconds=1)
    with engine.begin() as conn:
        # As of one that ran since it was submitted, and had to give way.
        conn.execute(
            text(
                "UPDATE units SET waiting_since = :since"
                " WHERE group_id = (SELECT id FROM groups WHERE public_id = :id)"
            ),
            {"since": since, "id": back},
        )
    cluster.settle()
    (reason,) = _reasons(user, back)["reasons"]
    assert (reason["code"], datetime.fromisoformat(reason["since"])) == ("InsufficientGpus", since)


def test_a_group_that_waits_for_the_model_that_it_prefers_says_so(
    user: Client, admin: Client, engine: Engine, cluster: Cluster
) -> None:
    _submit(user, gpus=4)
    cluster.settle()
    gpu = {"models": ["H100-80GB", "A100-80GB"], "fallback_after": "30m"}
    waits = _submit(user, gpu=gpu)
    cluster.settle()
    (reason,) = _reasons(user, waits)["reasons"]
    assert (reason["code"], reason["scope"]["models"]) == ("InsufficientGpus", "H100-80GB")
    until = datetime.fromisoformat(reason["scope"]["fallback_at"])
    submitted = datetime.fromisoformat(user.get(f"/v1/groups/{waits}").json()["submitted_at"])
    assert timedelta(minutes=29, seconds=59) <= until - submitted <= timedelta(minutes=30)
    assert (reason["scope"]["awaited"], reason["scope"]["fallback"]) == ("H100-80GB", "A100-80GB")
    at = reason["scope"]["fallback_at"]
    assert f"it waits for H100-80GB alone until {at}, from then on A100-80GB will do" in reason["message"]
    # A queue that does not allow the model that it prefers leaves nothing to wait for.
    admin.patch("/v1/queues/default", json={"flavors": ["A100-80GB"]}).raise_for_status()
    cluster.settle()
    assert all("fallback" not in reason["scope"] for reason in _reasons(user, waits)["reasons"])


def test_overall_position_counts_every_queue(user: Client, admin: Client, cluster: Cluster) -> None:
    admin.post("/v1/queues", json={"name": "q1"}).raise_for_status()
    _submit(user, gpus=4)
    cluster.settle()
    _submit(user, queue="q1", priority=3)
    mine = _submit(user)
    cluster.settle()
    standing = user.get(f"/v1/groups/{mine}/position").json()
    assert (standing["position"], standing["overall_position"]) == (1, 2)


def test_who_no_longer_backs_off_stands_before_the_others(
    user: Client, engine: Engine, cluster: Cluster
) -> None:
    _submit(user, gpus=4)
    cluster.settle()
    ahead, mine = _submit(user), _submit(user)
    with engine.begin() as conn:
        conn.execute(
            text(
                "UPDATE units SET backoff_until = now() - interval '1 minute' WHERE group_id ="
                " (SELECT id FROM groups WHERE public_id = :id)"
            ),
            {"id": ahead},
        )
    cluster.settle()
    standing = user.get(f"/v1/groups/{mine}/position").json()
    assert (standing["position"], standing["overall_position"]) == (2, 2)


def test_a_stopped_queue_says_so(user: Client, admin: Client, cluster: Cluster) -> None:
    group_id = _submit(user)
    admin.patch("/v1/queues/default", json={"stop": "hold"}).raise_for_status()
    assert _codes(user, group_id)[0] == "QueueStopped"
    cluster.settle()
    assert _codes(user, group_id)[0] == "QueueStopped"
    assert _reasons(user, group_id)["position"] is None


def test_a_refused_start_is_told_with_the_launchers_words(user: Client, cluster: Cluster) -> None:
    group_id = _submit(user)
    cluster.machines.behave("g", refuses=True, message="no such image")
    cluster.settle()
    reasons = _reasons(user, group_id)["reasons"]
    assert {reason["code"] for reason in reasons} >= {"BackingOff", "DispatchRefused"}
    assert "no such image" in next(r["message"] for r in reasons if r["code"] == "DispatchRefused")
    group = user.get(f"/v1/groups/{group_id}").json()
    assert (group["status"], group["attempt"], group["refused_dispatches"]) == ("Pending", 2, 1)
    assert group["position"] is None


def test_a_group_that_failed_by_refused_starts_says_so(
    user: Client, settings: Settings, engine: Engine, redis: Redis
) -> None:
    cluster = Cluster(msgspec.structs.replace(settings, max_dispatches=1), engine, redis)
    cluster.machines.behave("g", refuses=True, message="no such image")
    group_id = _submit(user)
    cluster.settle()
    assert user.get(f"/v1/groups/{group_id}").json()["status"] == "Failed"
    (reason,) = _reasons(user, group_id)["reasons"]
    assert (reason["code"], reason["have"]) == ("DispatchRefused", 1)
    assert "no such image" in reason["message"]
    cluster.close()


def test_holders_of_other_users_are_only_counted(
    user: Client, operator: Client, admin: Client, callers: Callers, cluster: Cluster
) -> None:
    admin.patch("/v1/queues/default", json={"order": "strict"}).raise_for_status()
    other = callers.make(KeyRole.USER, user="other")
    head = _submit(other, members=4)
    cluster.settle()
    blocked = _submit(other, members=4)
    mine = _submit(user)
    cluster.settle()
    cluster.machines.end("nobody")
    for client, holders, others in ((user, [], 1), (operator, [blocked], 0)):
        turn = next(r for r in _reasons(client, mine)["reasons"] if r["code"] == "WaitingForTurn")
        assert (turn["holders"], turn["other_holders"]) == (holders, others)
        assert (blocked in turn["message"]) is (client is operator)
    assert head not in str(_reasons(user, mine))


def test_an_ended_group_is_blocked_by_nothing(user: Client) -> None:
    group_id = _submit(user)
    user.delete(f"/v1/groups/{group_id}")
    answer = _reasons(user, group_id)
    assert (answer["reasons"], answer["is_waiting"], answer["position"]) == ([], False, None)


@pytest.fixture
def without_redis(settings: Settings, engine: Engine, tmp_path: Path) -> Iterator[Client]:
    """The API with a Redis that nobody serves, and an admin's key."""
    app = create_app(settings, engine=engine, redis=make_client(f"unix://{tmp_path}/nobody.sock"))
    with TestClient(app, raise_server_exceptions=False) as client:
        client.headers["Authorization"] = f"Bearer {settings.api_key}"
        yield client


def test_without_redis_everything_but_explanations_goes_on(without_redis: Client) -> None:
    group_id = _submit(without_redis)
    assert without_redis.get(f"/v1/groups/{group_id}").json()["position"] is None
    (listed,) = without_redis.get("/v1/groups", params={"waiting": True}).json()["groups"]
    assert (listed["id"], listed["position"]) == (group_id, None)
    for part in ("position", "reasons"):
        answer = without_redis.get(f"/v1/groups/{group_id}/{part}")
        assert answer.status_code == 503
        assert "Redis" in answer.json()["detail"]
        assert answer.json()["type"] == "/problems/inventory-unavailable"
    assert without_redis.delete(f"/v1/groups/{group_id}").json()["status"] == "Cancelled"
    assert _codes(without_redis, group_id) == []


def test_who_is_over_a_limit_of_its_own_is_told_and_others_are_not(
    callers: Callers, admin: Client, cluster: Cluster
) -> None:
    alice, bob = (callers.make(KeyRole.USER, user=user) for user in ("alice", "bob"))
    limits = {"user_limit": {"H100-80GB": 2, "cpus": 64}, "group_limit": {"H100-80GB": 1}}
    admin.post("/v1/queues", json={"name": "limited", **limits}).raise_for_status()
    running = [_submit(alice, f"g{number}", queue="limited") for number in range(2)]
    waits = _submit(alice, "waits", queue="limited")
    shards = _submit(bob, "shards", queue="limited", members=3, scheduling="independent")
    cluster.settle()
    assert [_codes(alice, group_id) for group_id in running] == [[], []]
    (reason,) = _reasons(alice, waits)["reasons"]
    assert (reason["code"], reason["need"], reason["have"], reason["limit"]) == ("QuotaExceeded", 1, 2, 2)
    assert reason["scope"] == {
        "queue": "limited",
        "user": "alice",
        "resource": "gpus",
        "flavor": "H100-80GB",
    }
    assert reason["message"] == (
        "needs 1 GPU of H100-80GB, user alice holds 2 GPUs of the 2 GPUs that one may hold in queue limited"
    )
    (of_group,) = _reasons(bob, shards)["reasons"]
    assert (of_group["code"], of_group["have"], of_group["limit"]) == ("QuotaExceeded", 1, 1)
    assert of_group["scope"]["group"] == shards


def test_who_may_not_be_preempted_is_told_that_it_borrows_nothing(admin: Client, cluster: Cluster) -> None:
    admin.post("/v1/cohorts", json={"name": "lab", "nominal_quota": {"H100-80GB": 8}}).raise_for_status()
    queue = {"name": "guests", "cohort": "lab", "nominal_quota": {}}
    admin.post("/v1/queues", json=queue).raise_for_status()
    stays = _submit(admin, "stays", queue="guests", preemptible=False)
    goes = _submit(admin, "goes", queue="guests")
    cluster.settle()
    assert _codes(admin, goes) == []
    (reason,) = _reasons(admin, stays)["reasons"]
    assert (reason["code"], reason["need"], reason["have"], reason["limit"]) == ("NeverFits", 1, 1, 0)
    assert reason["message"] == (
        "needs 1 GPU, and may not borrow, for it may not be preempted: of its own queue guests has"
        " 0 GPUs of H100-80GB"
    )
    changed = {"nominal_quota": {"H100-80GB": 1}}
    admin.patch("/v1/queues/guests", json=changed).raise_for_status()
    cluster.settle()
    (reason,) = _reasons(admin, stays)["reasons"]
    assert (reason["code"], reason["need"], reason["have"], reason["limit"]) == ("QuotaExceeded", 1, 1, 1)
    assert reason["message"] == (
        "needs 1 GPU of H100-80GB, queue guests holds 1 GPU and has 1 GPU of its own; what may not be"
        " preempted borrows nothing"
    )


def test_who_is_above_a_limit_that_was_lowered_is_told_that_it_never_fits(
    callers: Callers, admin: Client, cluster: Cluster
) -> None:
    alice = callers.make(KeyRole.USER, user="alice")
    admin.post("/v1/queues", json={"name": "limited", "stop": "hold"}).raise_for_status()
    waits = _submit(alice, "waits", queue="limited", members=3)
    limits = {"user_limit": {"H100-80GB": 2}, "group_limit": {"cpus": 2}, "stop": "none"}
    admin.patch("/v1/queues/limited", json=limits).raise_for_status()
    cluster.settle()
    reasons = {reason["scope"].get("user"): reason for reason in _reasons(alice, waits)["reasons"]}
    assert {reason["code"] for reason in reasons.values()} == {"NeverFits"}
    assert reasons["alice"]["message"] == (
        "needs 3 GPUs, and user alice may never hold more in queue limited than 2 GPUs of H100-80GB"
    )
    assert reasons[None]["scope"]["group"] == waits
    assert reasons[None]["message"] == (
        "needs 3 CPUs, and the group may never hold more in queue limited than 2 CPUs"
    )


@pytest.mark.parametrize(
    ("quota", "most"),
    [
        ({"nominal_quota": {"H100-80GB": 1}, "borrowing_limit": {"H100-80GB": 1}}, 2),
        ({"nominal_quota": {"H100-80GB": 1}, "limit": {"H100-80GB": 2}}, 2),
        ({"nominal_quota": {}}, 3),
    ],
)
def test_what_its_queue_may_never_hold_is_told_not_refused(
    admin: Client, cluster: Cluster, quota: dict[str, Any], most: int
) -> None:
    """Own quota, what the cohort can lend at most, and a hard limit: an operator may raise each of them."""
    lab = {"name": "lab", "nominal_quota": {"H100-80GB": 3}}
    admin.post("/v1/cohorts", json=lab).raise_for_status()
    admin.post("/v1/queues", json={"name": "q", "cohort": "lab", **quota}).raise_for_status()
    group = _submit(admin, "g", queue="q", members=most + 1)
    cluster.settle()
    reasons = {each["code"]: each for each in _reasons(admin, group)["reasons"]}
    assert (reasons["NeverFits"]["need"], reasons["NeverFits"]["limit"]) == (most + 1, most)


def test_its_guard_runs_only_while_places_alone_are_missing(
    user: Client, admin: Client, cluster: Cluster
) -> None:
    quota = {"nominal_quota": {"H100-80GB": 2}}
    admin.post("/v1/queues", json={"name": "small", **quota}).raise_for_status()
    _submit(user, gpus=2, queue="small")
    _submit(user, gpus=2)
    cluster.settle()
    short, both = _submit(user, gpus=2), _submit(user, gpus=1, queue="small")
    cluster.settle()
    running = user.get(f"/v1/groups/{short}/position").json()
    assert running["guard_at"] > user.get(f"/v1/groups/{short}").json()["submitted_at"]
    assert 86_000 < running["guard_left_seconds"] <= 86_400
    still = user.get(f"/v1/groups/{both}/position").json()
    assert (still["guard_at"], 86_000 < still["guard_left_seconds"] <= 86_400) == (None, True)
    user.post(f"/v1/groups/{short}/hold").raise_for_status()
    held = user.get(f"/v1/groups/{short}/position").json()
    assert (held["guard_at"], held["guard_left_seconds"]) == (None, None)


def test_its_guard_is_the_one_that_the_leader_goes_by(
    user: Client, settings: Settings, engine: Engine, redis: Redis
) -> None:
    with closing(Cluster(msgspec.structs.replace(settings, guard_seconds=1000.0), engine, redis)) as cluster:
        _submit(user, gpus=4)
        cluster.settle()
        short = _submit(user, gpus=4)
        cluster.settle()
    assert 900 < user.get(f"/v1/groups/{short}/position").json()["guard_left_seconds"] <= 1000


def test_what_keeps_others_from_giving_way_is_told_and_the_leader_wakes_for_it(
    callers: Callers, admin: Client, operator: Client, cluster: Cluster
) -> None:
    alice, bob = (callers.make(KeyRole.USER, user=user) for user in ("alice", "bob"))
    policy = {"preempt_within": "lower_priority", "min_runtime": "2s"}
    admin.post("/v1/queues", json={"name": "kept", **policy}).raise_for_status()
    victim = _submit(alice, "victim", queue="kept", gpus=4)
    cluster.settle()
    waits = _submit(bob, "waits", queue="kept", gpus=3, priority=5)
    cluster.settle()
    until = _reasons(bob, waits)["reasons"][1]["scope"]["until"]
    for client, holders, others in ((bob, [], 1), (operator, [victim], 0)):
        reasons = _reasons(client, waits)["reasons"]
        assert [reason["code"] for reason in reasons] == ["InsufficientGpus", "PreemptionDelayed"]
        told = reasons[1]
        assert (told["need"], told["have"]) == (3, 4)
        assert (told["holders"], told["other_holders"]) == (holders, others)
        assert (told["scope"]["groups"], told["scope"]["min_runtime"]) == ("1", "1")
        assert told["message"] == (
            f"1 group would give up 4 GPUs for it, but not before {until}: "
            "1 has not run for its queue's min_runtime yet"
        )
    admitted_at = datetime.fromisoformat(admin.get(f"/v1/groups/{victim}").json()["admitted_at"])
    end = admitted_at + timedelta(seconds=2)
    assert datetime.fromisoformat(until) == end.replace(microsecond=0)
    # The leader wakes itself: nobody rings at that instant.
    seconds = cluster.leader.seconds_to_wake()
    assert seconds is not None
    assert seconds <= 2
    Event().wait(max(0, (end - SystemClock().now()).total_seconds()) + 0.01)
    cluster.settle()
    assert admin.get(f"/v1/groups/{waits}").json()["status"] == "Running"
