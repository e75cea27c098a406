"""Cancelling and holding groups and members, with a real leader and dispatcher."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from service.domain.principal import KeyRole
from tests.integration.api.callers import Callers
from tests.integration.api.cluster import Cluster
from tests.integration.api.waiting import wait_until
from workers.launchers.simulated_behaviour import Exit

Client = TestClient[Litestar]


def _submit(client: Client, **fields: Any) -> str:
    answer = client.post("/v1/groups", json={"name": "g", "gpus": 1, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _get(client: Client, group_id: str) -> dict[str, Any]:
    return dict(client.get(f"/v1/groups/{group_id}").json())


def test_what_waits_is_cancelled_at_once(user: Client, engine: Engine) -> None:
    group_id = _submit(user, secrets={"TOKEN": "one"})
    answer = user.delete(f"/v1/groups/{group_id}")
    assert answer.status_code == 202
    assert answer.json()["status"] == "Cancelled"
    assert answer.json()["cause"] == "Cancelled"
    assert answer.json()["ended_at"] is not None
    kinds = [event["kind"] for event in user.get(f"/v1/groups/{group_id}/events").json()["events"]]
    assert kinds == ["Submitted", "Cancelled"]
    with engine.connect() as conn:
        assert conn.execute(text("SELECT secrets FROM group_specs")).scalar_one() is None


def test_a_second_cancel_changes_nothing(user: Client, engine: Engine) -> None:
    group_id = _submit(user)
    first = user.delete(f"/v1/groups/{group_id}").json()
    again = user.delete(f"/v1/groups/{group_id}")
    assert again.status_code == 202
    assert again.json() == first
    with engine.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM events WHERE kind = 'Cancelled'")).scalar_one() == 1


def test_an_unknown_group_and_one_of_another_user_answer_alike(user: Client, callers: Callers) -> None:
    other = callers.make(KeyRole.USER, user="other")
    theirs = _submit(other)
    unknown = "00000000-0000-7000-8000-000000000000"
    for method, part in (
        ("DELETE", ""),
        ("GET", ""),
        ("GET", "/events"),
        ("GET", "/members"),
        ("GET", "/members/0"),
        ("GET", "/members/0/logs"),
        ("DELETE", "/members/0"),
        ("GET", "/position"),
        ("GET", "/reasons"),
        ("POST", "/hold"),
        ("POST", "/release"),
    ):
        answers = [user.request(method, f"/v1/groups/{each}{part}") for each in (theirs, unknown, "nonsense")]
        assert {answer.status_code for answer in answers} == {404}
        assert len({answer.text for answer in answers}) == 1
    assert _get(other, theirs)["status"] == "Pending"


def test_an_operator_may_cancel_and_is_named_as_the_actor(
    user: Client, operator: Client, engine: Engine
) -> None:
    group_id = _submit(user)
    assert operator.delete(f"/v1/groups/{group_id}").status_code == 202
    events = user.get(f"/v1/groups/{group_id}/events").json()["events"]
    assert (events[-1]["kind"], events[-1]["actor"]) == ("Cancelled", "operator")


def test_what_runs_is_evicted_and_ends_when_its_members_are_gone(user: Client, cluster: Cluster) -> None:
    group_id = _submit(user, members=4)
    cluster.settle()
    running = _get(user, group_id)
    assert running["status"] == "Running"
    assert running["places"] == [{"node": "n1", "gpus": 4, "members": 4}]
    assert (running["attempt"], running["generation"], running["dispatches"]) == (1, 1, 1)
    assert running["admitted_at"] <= running["running_at"]
    answer = user.delete(f"/v1/groups/{group_id}")
    assert answer.json()["status"] == "Evicting"
    cluster.settle()
    ended = _get(user, group_id)
    assert (ended["status"], ended["cause"], ended["places"]) == ("Cancelled", "Cancelled", [])
    assert cluster.machines.live_members() == []


def test_a_requeue_under_way_becomes_a_cancel(user: Client, admin: Client, cluster: Cluster) -> None:
    group_id = _submit(user, checkpoint={"grace": "1h"})
    cluster.settle()
    cluster.machines.behave("g", exits=Exit.AFTER_GRACE)
    admin.post("/v1/nodes/n1/drain", json={"deadline": 0}).raise_for_status()

    def is_evicting() -> bool:
        cluster.dispatcher.pass_once()  # drains are looked for about once a second
        return bool(_get(user, group_id)["status"] == "Evicting")

    wait_until(is_evicting)
    evicting = _get(user, group_id)
    assert (evicting["status"], evicting["message"]) == ("Evicting", "Node n1 is drained.")
    user.delete(f"/v1/groups/{group_id}").raise_for_status()
    assert _get(user, group_id)["cause"] == "Cancelled"
    cluster.machines.end("g", exit_code=143)
    cluster.settle()
    assert _get(user, group_id)["status"] == "Cancelled"


def test_a_group_that_recovers_says_why_and_no_longer_once_it_runs(user: Client, cluster: Cluster) -> None:
    group_id = _submit(user, members=2, checkpoint={"grace": "1h"})
    cluster.settle()
    cluster.machines.behave("g", exits=Exit.AFTER_GRACE)
    cluster.machines.end("g", member=1, exit_code=3)
    cluster.dispatcher.pass_once()
    recovering = _get(user, group_id)
    assert (recovering["status"], recovering["cause"]) == ("Recovering", "UserError")
    assert "member 1" in recovering["message"].lower()
    cluster.machines.end("g", member=0, exit_code=143)
    cluster.settle()
    running = _get(user, group_id)
    assert (running["status"], running["generation"]) == ("Running", 2)
    assert (running["cause"], running["message"]) == (None, None)


def test_a_member_in_the_middle_of_a_waiting_range(user: Client, engine: Engine) -> None:
    group_id = _submit(user, scheduling="independent", members=6)
    for member, ranges in (
        (2, [(0, 1, "Pending"), (2, 2, "Cancelled"), (3, 5, "Pending")]),
        (0, [(0, 0, "Cancelled"), (1, 1, "Pending"), (2, 2, "Cancelled"), (3, 5, "Pending")]),
        (
            5,
            [
                (0, 0, "Cancelled"),
                (1, 1, "Pending"),
                (2, 2, "Cancelled"),
                (3, 4, "Pending"),
                (5, 5, "Cancelled"),
            ],
        ),
    ):
        answer = user.delete(f"/v1/groups/{group_id}/members/{member}")
        assert answer.status_code == 202
        assert answer.json()["status"] == "Cancelled"
        with engine.connect() as conn:
            rows = conn.execute(text("SELECT first_index, last_index, status FROM units ORDER BY id"))
            assert [tuple(row) for row in rows] == ranges
    assert user.delete(f"/v1/groups/{group_id}/members/2").status_code == 202
    assert user.delete(f"/v1/groups/{group_id}/members/6").status_code == 404
    assert _get(user, group_id)["units"] == {"Cancelled": 3, "Pending": 3}
    with engine.connect() as conn:
        named = set(conn.execute(text("SELECT DISTINCT unit_id FROM events")).scalars())
        assert named == set(conn.execute(text("SELECT id FROM units")).scalars())


def test_members_left_of_a_split_range_still_run(user: Client, cluster: Cluster) -> None:
    group_id = _submit(user, scheduling="independent", members=6)
    user.delete(f"/v1/groups/{group_id}/members/1").raise_for_status()
    cluster.settle()
    members = user.get(f"/v1/groups/{group_id}/members").json()["members"]
    assert [(each["member"], each["status"]) for each in members] == [
        (0, "Running"),
        (1, "Cancelled"),
        (2, "Running"),
        (3, "Running"),
        (4, "Running"),
        (5, "Pending"),
    ]
    user.delete(f"/v1/groups/{group_id}/members/2").raise_for_status()
    cluster.settle()
    assert _get(user, group_id)["units"] == {"Cancelled": 2, "Running": 4}
    user.delete(f"/v1/groups/{group_id}").raise_for_status()
    cluster.settle()
    assert _get(user, group_id)["units"] == {"Cancelled": 6}


def test_a_member_of_a_gang_is_not_cancelled_alone(user: Client) -> None:
    group_id = _submit(user, members=2)
    assert user.delete(f"/v1/groups/{group_id}/members/0").status_code == 409
    assert _get(user, group_id)["status"] == "Pending"


def test_a_cancel_that_waits_for_the_split_of_an_admission_cancels_what_was_split_off(
    user: Client, cluster: Cluster, engine: Engine
) -> None:
    """W4: the leader splits the range in a transaction that is still open when the cancel comes."""
    group_id = _submit(user, scheduling="independent", members=6)
    with engine.connect() as admitting, ThreadPoolExecutor(1) as pool:
        admitting.execute(text("SELECT FROM groups FOR NO KEY UPDATE"))
        internal = admitting.execute(text("SELECT id FROM groups")).scalar_one()
        admitting.execute(
            text(
                "INSERT INTO units (id, group_id, first_index, last_index, status, attempt, version, is_held,"
                " restarts_used, refused_dispatches, failed_nodes)"
                " SELECT CAST(:group AS bigint) << 20, :group, 0, 0, 'Pending', 1, 1, false, 0, 0, '{}'"
            ),
            {"group": internal},
        )
        admitting.execute(text("UPDATE units SET first_index = 1, version = 2 WHERE last_index = 5"))
        cancelling = pool.submit(user.delete, f"/v1/groups/{group_id}")
        admitting.execute(text("SELECT pg_sleep(0.3)"))
        assert not cancelling.done()
        admitting.commit()
        assert cancelling.result(10).json()["units"] == {"Cancelled": 6}
    cluster.settle()
    assert cluster.machines.live_members() == []


def test_nothing_of_a_held_group_is_admitted_until_it_is_released(user: Client, cluster: Cluster) -> None:
    held, other = _submit(user), _submit(user)
    answer = user.post(f"/v1/groups/{held}/hold")
    assert (answer.status_code, answer.json()["is_held"]) == (200, True)
    cluster.settle()
    assert _get(user, held)["status"] == "Pending"
    assert _get(user, other)["status"] == "Running"
    reasons = user.get(f"/v1/groups/{held}/reasons").json()
    assert (reasons["reasons"][0]["code"], reasons["position"]) == ("OnHold", None)
    assert "user" in reasons["reasons"][0]["message"]
    assert user.post(f"/v1/groups/{held}/release").json()["is_held"] is False
    cluster.settle()
    assert _get(user, held)["status"] == "Running"
    kinds = [event["kind"] for event in user.get(f"/v1/groups/{held}/events").json()["events"]]
    assert kinds[:3] == ["Submitted", "Held", "Released"]


def test_hold_between_plan_and_commit_wins(user: Client, cluster: Cluster) -> None:
    group_id = _submit(user)
    assert cluster.leader.hold_lease()
    cluster.leader.read_and_plan()
    cluster.leader.reserve()
    user.post(f"/v1/groups/{group_id}/hold").raise_for_status()
    cluster.leader.resume()
    cluster.settle()
    assert _get(user, group_id)["status"] == "Pending"


def test_what_has_ended_cannot_be_held(user: Client) -> None:
    group_id = _submit(user)
    user.delete(f"/v1/groups/{group_id}").raise_for_status()
    assert user.post(f"/v1/groups/{group_id}/hold").status_code == 409
    assert user.post(f"/v1/groups/{group_id}/release").status_code == 409


def test_instants_are_of_the_clock(user: Client) -> None:
    group = _get(user, _submit(user))
    submitted_at = datetime.fromisoformat(group["submitted_at"])
    assert submitted_at.tzinfo is not None
    assert abs((datetime.now(UTC) - submitted_at).total_seconds()) < 60
