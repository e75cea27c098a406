"""Cancels, holds and releases beside cycles: nothing is lost, doubled or left behind (W4)."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from tests.integration.api.cluster import Cluster

Client = TestClient[Litestar]

MEMBERS = 40


def test_members_cancelled_beside_cycles(admin: Client, cluster: Cluster, engine: Engine) -> None:
    body = {"name": "shards", "scheduling": "independent", "members": MEMBERS, "gpus": 1}
    group_id = admin.post("/v1/groups", json=body).json()["id"]
    cancelled = random.Random(7).sample(range(MEMBERS), 30)
    failures: list[str] = []

    def cancel(members: list[int]) -> None:
        for member in members:
            answer = admin.delete(f"/v1/groups/{group_id}/members/{member}")
            if answer.status_code != 202:
                failures.append(answer.text)

    def hold_and_release() -> None:
        for verb in ("hold", "release") * 10:
            answer = admin.post(f"/v1/groups/{group_id}/{verb}")
            if answer.status_code not in (200, 409):  # 409: all of it has ended
                failures.append(answer.text)

    workers: list[Callable[[], None]] = [
        lambda: cancel(cancelled[:15]),
        lambda: cancel(cancelled[15:]),
        hold_and_release,
    ]
    threads = [threading.Thread(target=work) for work in workers]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        cluster.leader.run_cycle()
        cluster.dispatcher.pass_once()
        cluster.machines.end("shards")
    for _ in range(MEMBERS):
        cluster.settle()
        cluster.machines.end("shards")
    cluster.settle()
    assert failures == []
    with engine.connect() as conn:
        rows = conn.execute(text("SELECT first_index, last_index, status FROM units ORDER BY id")).all()
        left = conn.execute(text("SELECT count(*) FROM attempts")).scalar_one()
    covered = [index for row in rows for index in range(row.first_index, row.last_index + 1)]
    assert covered == list(range(MEMBERS))
    assert left == 0
    assert {row.status for row in rows} <= {"Succeeded", "Cancelled"}
    kept = set(range(MEMBERS)) - set(cancelled)
    succeeded = {row.first_index for row in rows if row.status == "Succeeded"}
    assert kept <= succeeded
    assert cluster.machines.live_members() == []


def test_a_cancel_between_plan_and_commit_wins(admin: Client, cluster: Cluster, engine: Engine) -> None:
    for scheduling in ("gang", "independent"):
        body = {"name": scheduling, "scheduling": scheduling, "members": 2, "gpus": 1}
        group_id = admin.post("/v1/groups", json=body).json()["id"]
        assert cluster.leader.hold_lease()
        assert cluster.leader.read_and_plan()
        assert cluster.leader.reserve()
        assert admin.delete(f"/v1/groups/{group_id}").json()["status"] == "Cancelled"
        cluster.leader.resume()
        cluster.settle()
        assert admin.get(f"/v1/groups/{group_id}").json()["status"] == "Cancelled"
        with engine.connect() as conn:
            assert conn.execute(text("SELECT count(*) FROM held_devices")).scalar_one() == 0
    assert cluster.machines.live_members() == []


def test_a_hold_between_plan_and_commit_wins(admin: Client, cluster: Cluster, engine: Engine) -> None:
    """W4: it raises the version, so the commit finds another row than the one it planned with."""
    for scheduling in ("gang", "independent"):
        body = {"name": scheduling, "scheduling": scheduling, "members": 2, "gpus": 1}
        group_id = admin.post("/v1/groups", json=body).json()["id"]
        assert cluster.leader.hold_lease()
        assert cluster.leader.read_and_plan()
        assert cluster.leader.reserve()
        assert admin.post(f"/v1/groups/{group_id}/hold").status_code == 200
        cluster.leader.resume()
        cluster.settle()
        assert admin.get(f"/v1/groups/{group_id}").json()["status"] == "Pending"
        with engine.connect() as conn:
            assert conn.execute(text("SELECT count(*) FROM held_devices")).scalar_one() == 0
        assert admin.post(f"/v1/groups/{group_id}/release").status_code == 200
        cluster.settle()
        assert admin.get(f"/v1/groups/{group_id}").json()["status"] == "Running"
        assert admin.delete(f"/v1/groups/{group_id}").status_code == 202
        cluster.settle()
