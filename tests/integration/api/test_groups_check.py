"""What would come of a group, asked before it is submitted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Engine, text

from service.domain.principal import KeyRole
from service.store.contenders import read_contenders
from tests.integration.api.callers import Callers
from tests.integration.api.cluster import Cluster

Client = TestClient[Litestar]


CHECK = "/v1/groups/check"


def check(client: Client, **fields: Any) -> dict[str, Any]:
    answer = client.post(CHECK, json={"name": "g", "gpus": 1, **fields})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def submit(client: Client, **fields: Any) -> str:
    answer = client.post("/v1/groups", json={"name": "g", "gpus": 1, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def codes(answer: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in answer["reasons"]]


def everything(engine: Engine, redis: Redis) -> dict[str, Any]:
    """All rows and sequences of PostgreSQL, all keys of Redis."""
    with engine.connect() as conn:
        names = conn.execute(
            text("SELECT relname FROM pg_stat_user_tables WHERE schemaname = 'public' ORDER BY 1")
        ).scalars()
        found: dict[str, Any] = {
            name: conn.execute(text(f"SELECT array_agg(t::text ORDER BY t::text) FROM {name} t")).scalar_one()
            for name in names.all()
        }
        found["sequences"] = conn.execute(text("SELECT * FROM pg_sequences ORDER BY sequencename")).all()
    found["redis"] = {key: redis.dump(key) for key in redis.scan_iter()}
    return found


FUTURE = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
ASKED: dict[str, dict[str, Any]] = {
    "fits": {"members": 2},
    "fits alone": {"gpus": 4},
    "too many members now": {"members": 3, "gpus": 2},
    "more than one node has": {"gpus": 5},
    "such a model is nowhere": {"gpu": {"models": ["B200"]}},
    "never as a whole": {"members": 9},
    "shards of which some fit": {"members": 6, "scheduling": "independent"},
    "at most four": {"members": 9, "elastic": {"resize": "at_start"}, "min_count": 2},
    "later": {"not_before": FUTURE},
    "too much memory": {"memory_gib": 100_000},
    "of a priority that the queue does not take": {"priority": 900},
    "without a time limit where one is needed": {"queue": "short", "time_limit": "5h"},
    "beyond its quota": {"queue": "small", "members": 2},
    "stopped": {"queue": "stopped"},
    "no such queue": {"queue": "nowhere"},
    "no such class": {"priority": "gold"},
    "rigid with a minimum": {"members": 4, "min_count": 2},
    "a level that no pool has": {"topology": {"required": "rack"}},
    "after itself": {"after": [{"group": str(uuid4())}]},
    "a time that is none": {"time_limit": "99999999d"},
    "a broken form": {"roles": [{"name": "w", "count": 1, "requests": {"gpus": 1}, "command": ["x"]}]},
}


@pytest.fixture
def queues(admin: Client) -> None:
    admin.patch("/v1/queues/default", json={"highest_priority": {"user": 100}}).raise_for_status()
    for queue in (
        {"name": "short", "max_time_limit": "1h"},
        {"name": "small", "nominal_quota": {"H100-80GB": 1}},
        {"name": "stopped", "stop": "hold"},
    ):
        admin.post("/v1/queues", json=queue).raise_for_status()


@pytest.mark.parametrize("held", [0, 2, 4])
@pytest.mark.usefixtures("queues")
def test_it_says_what_a_submit_and_a_cycle_then_do(
    user: Client, engine: Engine, cluster: Cluster, redis: Redis, held: int
) -> None:
    if held:
        submit(user, gpus=held, time_limit="2h")
    cluster.settle()
    for what, fields in ASKED.items():
        before = everything(engine, redis)
        body = {"name": "g", "gpus": 1, **_asked(fields)}
        answer = user.post(CHECK, json=body)
        assert answer.status_code == 200, f"{what}: {answer.text}"
        said = answer.json()
        assert everything(engine, redis) == before, f"{what}: something was written"
        made = user.post("/v1/groups", json=body)
        if made.status_code != 201:
            assert said["would"] == "refuse", f"{what}: {said}"
            assert [said["detail"], said["errors"]] == [made.json()["detail"], made.json()["errors"]], what
            continue
        cluster.settle()
        group = user.get(f"/v1/groups/{made.json()['id']}").json()
        reasons = user.get(f"/v1/groups/{made.json()['id']}/reasons").json()["reasons"]
        assert said["would"] == ("wait" if group["is_waiting"] else "admit"), f"{what}: {said}"
        assert said["places"] == group["places"], what
        if group["is_waiting"]:
            assert [_plain(each) for each in said["reasons"]] == [_plain(each) for each in reasons], what
            assert said["position"] == group["position"], what
        user.delete(f"/v1/groups/{made.json()['id']}").raise_for_status()
        cluster.settle()


def _asked(fields: dict[str, Any]) -> dict[str, Any]:
    if "min_count" in fields:
        fields = dict(fields)
        role = {"name": "w", "count": fields.pop("members"), "min_count": fields.pop("min_count")}
        return {"roles": [role | {"requests": {"gpus": 1}, "command": ["true"]}], "gpus": None, **fields}
    return fields


def _plain(reason: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the instant; a group's own id stands in nobody's way."""
    return {key: each for key, each in reason.items() if key not in ("since", "cycle_id")}


def test_what_it_waits_for_is_looked_at_as_a_submit_does(user: Client, cluster: Cluster) -> None:
    running, ended = submit(user, gpus=4), submit(user, gpus=4)
    user.delete(f"/v1/groups/{ended}").raise_for_status()
    cluster.settle()
    waits = check(user, after=[{"group": running, "when": "any"}], gpus=0)
    assert (waits["would"], codes(waits), waits["position"]) == ("wait", ["DependencyPending"], None)
    assert waits["reasons"][0]["holders"] == [running]
    assert check(user, after=[{"group": ended, "when": "any"}], gpus=0)["would"] == "admit"
    never = check(user, after=[{"group": ended, "when": "ok"}], gpus=0)
    assert (never["would"], [each["field"] for each in never["errors"]]) == ("refuse", ["after[0]"])
    assert "DependencyNeverMet" in never["detail"]
    assert "has ended as Cancelled, and ok waits for Succeeded:" in never["detail"]


def test_a_strict_queue_has_its_turn(user: Client, admin: Client, cluster: Cluster) -> None:
    admin.patch("/v1/queues/default", json={"order": "strict"}).raise_for_status()
    submit(user, gpus=3)
    cluster.settle()
    head = submit(user, gpus=4)
    cluster.settle()
    behind = check(user)
    assert (behind["would"], codes(behind), behind["position"]) == ("wait", ["WaitingForTurn"], 2)
    assert behind["reasons"][0]["holders"] == [head]
    assert check(user, priority=1)["would"] == "admit"


def test_a_queue_that_goes_by_length_counts_those_that_are_no_longer(
    user: Client, admin: Client, cluster: Cluster
) -> None:
    admin.patch("/v1/queues/default", json={"order_by": "shortest"}).raise_for_status()
    submit(user, gpus=4)
    cluster.settle()
    waiting = {limit: submit(user, gpus=4, time_limit=limit) for limit in (None, "3h", "1h", "2h")}
    cluster.settle()
    for limit, position in (("30m", 1), ("1h", 2), ("90m", 2), ("4h", 4), (None, 5)):
        assert check(user, gpus=4, time_limit=limit)["position"] == position, limit
    found = {limit: user.get(f"/v1/groups/{group}/position").json() for limit, group in waiting.items()}
    places = {limit: (each["position"], each["overall_position"]) for limit, each in found.items()}
    assert places == {"1h": (1, 1), "2h": (2, 2), "3h": (3, 3), None: (4, 4)}
    # What is kept for the first is not taken from it by who came later and is shorter.
    assert check(user, gpus=4, time_limit="30m")["would"] == "wait"

    # Submitted at about the same time, so that a fifth of the limit decides.
    admin.patch("/v1/queues/default", json={"order_by": "balanced"}).raise_for_status()
    cluster.settle()
    for limit, position in (("30m", 1), ("90m", 2), ("4h", 4), (None, 5)):
        assert check(user, gpus=4, time_limit=limit)["position"] == position, limit
    found = {limit: user.get(f"/v1/groups/{group}/position").json() for limit, group in waiting.items()}
    assert {limit: (each["position"], each["overall_position"]) for limit, each in found.items()} == places

    admin.patch("/v1/queues/default", json={"order_by": "age"}).raise_for_status()
    cluster.settle()
    assert [user.get(f"/v1/groups/{each}/position").json()["position"] for each in waiting.values()] == [
        1,
        2,
        3,
        4,
    ]


def test_who_has_not_been_seen_by_a_cycle_comes_before_it(user: Client, cluster: Cluster) -> None:
    cluster.settle()
    assert check(user, gpus=4)["would"] == "admit"
    submit(user, gpus=4)
    assert check(user, gpus=4)["would"] == "wait"


def test_others_give_way_to_it_and_are_not_named_to_strangers(
    callers: Callers, admin: Client, cluster: Cluster
) -> None:
    admin.patch("/v1/queues/default", json={"preempt_within": "lower_priority"}).raise_for_status()
    other, user = callers.make(KeyRole.USER, user="other"), callers.make(KeyRole.USER)
    victim = submit(other, gpus=4)
    cluster.settle()
    for client, holders, hidden in ((other, [victim], 0), (user, [], 1), (admin, [victim], 0)):
        answer = check(client, gpus=4, priority=5)
        assert (answer["would"], codes(answer)) == ("wait", ["InsufficientGpus", "PreemptionInProgress"])
        reason = answer["reasons"][1]
        assert reason["message"] == "1 group would have to make room for it"
        assert (reason["holders"], reason["other_holders"]) == (holders, hidden)
        assert answer["planned_start_at"] is not None
    cluster.settle()
    assert other.get(f"/v1/groups/{victim}").json()["status"] == "Running"


def test_places_that_are_kept_for_others_are_not_free(user: Client, cluster: Cluster) -> None:
    submit(user, gpus=3, time_limit="1h")
    cluster.settle()
    head = submit(user, gpus=4)
    cluster.settle()
    (reason,) = check(user)["reasons"]
    assert (reason["code"], reason["holders"], reason["scope"]["time_limit"]) == (
        "HeldForClaim",
        [head],
        "none",
    )
    assert check(user, time_limit="10m")["would"] == "admit"
    # With one place in the queue before it, its start has a date of its own if it is kept places too.
    assert check(user, gpus=4)["position"] == 2


def test_limits_of_users_and_of_what_may_be_borrowed(user: Client, admin: Client, cluster: Cluster) -> None:
    admin.patch("/v1/queues/default", json={"user_limit": {"H100-80GB": 2}}).raise_for_status()
    submit(user)
    cluster.settle()
    answer = check(user, members=2)
    (reason,) = answer["reasons"]
    assert (reason["code"], reason["need"], reason["have"], reason["limit"]) == ("QuotaExceeded", 2, 1, 2)
    assert reason["scope"]["user"] == "user"
    assert codes(check(user, members=3)) == ["NeverFits"]
    refused = check(user, members=3, gpu={"models": ["H100-80GB"]})
    assert (refused["would"], [each["field"] for each in refused["errors"]]) == ("refuse", ["members"])


def test_a_limit_of_its_owner_hides_none_of_its_queue(user: Client, admin: Client, cluster: Cluster) -> None:
    admin.post("/v1/cohorts", json={"name": "c"}).raise_for_status()
    limits = {"user_limit": {"H100-80GB": 4}, "nominal_quota": {"H100-80GB": 6}}
    admin.post("/v1/queues", json={"name": "q", "cohort": "c", **limits}).raise_for_status()
    said = check(user, queue="q", members=8)
    group = submit(user, queue="q", members=8)
    cluster.settle()
    reasons = user.get(f"/v1/groups/{group}/reasons").json()["reasons"]
    assert codes({"reasons": reasons[:2]}) == ["NeverFits", "NeverFits"]
    assert ["user" in each["scope"] for each in reasons[:2]] == [True, False]
    assert [_plain(each) for each in said["reasons"]] == [_plain(each) for each in reasons]


def test_what_is_no_group_at_all_is_an_error_as_it_is_of_a_submit(user: Client) -> None:
    for fields in ({"gpus": "four"}, {"gpu_count": 4}):
        answers = [user.post(path, json={"name": "g", **fields}) for path in ("/v1/groups", CHECK)]
        assert [answer.status_code for answer in answers] == [422, 422]
        assert answers[0].json() == answers[1].json()
    answer = user.post(CHECK, content=b"{", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/malformed-body")


def test_it_reads_a_bounded_part_of_what_waits(admin: Client, engine: Engine) -> None:
    admin.post("/v1/queues", json={"name": "q1"}).raise_for_status()
    waiting = [{"name": "g", "gpus": 1, "priority": at % 3} for at in range(1_200)]
    waiting += [{"name": "g", "gpus": 1, "queue": "q1"} for _ in range(700)]
    admin.post("/v1/groups/batch", json={"groups": waiting}).raise_for_status()
    with engine.connect() as conn:
        ids = {row.name: row.id for row in conn.execute(text("SELECT name, id FROM queues"))}
        read = read_contenders(conn, queue_id=ids["default"], priority=0).values()
        assert sum(row.queue_id == ids["default"] for row in read) == 1_000
        assert sum(row.queue_id == ids["q1"] for row in read) == 500
        # The first of them, and of its own queue none that would stand behind it.
        assert sum(row.priority > 0 for row in read) == 800
        read = read_contenders(conn, queue_id=ids["default"], priority=2).values()
        assert sum(row.queue_id == ids["default"] for row in read) == 400
