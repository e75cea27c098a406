"""A group that comes to wait while the other one ends, whoever is first (W4)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Connection, Engine, text

from service.settings import Settings
from tests.integration.api.cluster import Cluster
from tests.integration.api.dependents import submit

Client = TestClient[Litestar]


@pytest.fixture
def cluster(settings: Settings, engine: Engine, redis: Redis) -> Iterator[Cluster]:
    cluster = Cluster(settings, engine, redis, gpus=8)
    yield cluster
    cluster.close()


def statuses(client: Client, *groups: str) -> list[str]:
    return [client.get(f"/v1/groups/{each}").json()["status"] for each in groups]


def wait_for_locks(engine: Engine, count: int) -> None:
    """Until so many connections wait for a lock."""
    found = 0
    for _ in range(1000):
        with engine.connect() as conn:
            found = conn.execute(
                text(
                    "SELECT count(*) FROM pg_stat_activity"
                    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
                )
            ).scalar_one()
        if found >= count:
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"{found} of {count} wait for a lock")


def ends_by(how: str, client: Client, cluster: Cluster, group: str) -> Callable[[], object]:
    """Who ends the running group named `first`: a pass of the dispatcher, or a cancel of what waits."""
    if how == "cancel":
        return lambda: client.delete(f"/v1/groups/{group}")
    cluster.machines.end("first")
    return cluster.dispatcher.pass_once


@pytest.fixture(params=["cancel", "gang", "independent"])
def how(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def first(how: str, admin: Client, cluster: Cluster) -> str:
    """A group that is about to end."""
    if how == "cancel":
        return submit(admin, "first", gpus=99, allow_infeasible=True)
    fields = {"scheduling": "independent", "members": 2} if how == "independent" else {}
    group = submit(admin, "first", **fields)
    cluster.settle()
    assert statuses(admin, group) == ["Running"]
    return group


def when(how: str) -> str:
    return "any" if how == "cancel" else "ok"


def test_who_submits_second_sees_the_end(
    admin: Client, cluster: Cluster, engine: Engine, how: str, first: str
) -> None:
    """The end waits for the row of one that it answers; the submit waits for the end."""
    early = submit(admin, "early", {"group": first, "when": when(how)})
    with ThreadPoolExecutor() as pool, engine.connect() as blocker:
        transaction = blocker.begin()
        lock_group(blocker, early)
        end = pool.submit(ends_by(how, admin, cluster, first))
        wait_for_locks(engine, 1)
        late = pool.submit(submit, admin, "late", {"group": first, "when": when(how)})
        wait_for_locks(engine, 2)
        assert not late.done()
        transaction.rollback()
        end.result(20)
        group = late.result(20)
    cluster.settle()
    assert statuses(admin, early, group) == ["Running", "Running"]


def test_who_submits_first_is_answered_by_the_end(
    admin: Client, cluster: Cluster, engine: Engine, how: str, first: str
) -> None:
    """The submit waits with what it names in its hand, and the end waits for the submit."""
    with ThreadPoolExecutor() as pool, engine.connect() as blocker:
        transaction = blocker.begin()
        # It can be read, and not be written to.
        blocker.execute(text("LOCK TABLE group_dependencies IN EXCLUSIVE MODE"))
        waits = pool.submit(submit, admin, "waits", {"group": first, "when": when(how)})
        never = pool.submit(submit, admin, "never", {"group": first, "when": "not_ok"})
        wait_for_locks(engine, 2)
        end = pool.submit(ends_by(how, admin, cluster, first))
        wait_for_locks(engine, 3)
        assert not end.done()
        transaction.rollback()
        groups = [waits.result(20), never.result(20)]
        end.result(20)
    cluster.settle()
    assert statuses(admin, *groups) == ["Running", "Cancelled"]


def lock_group(conn: Connection, group: str) -> None:
    conn.execute(
        text("SELECT FROM groups WHERE public_id = CAST(:id AS uuid) FOR NO KEY UPDATE"), {"id": group}
    )


def test_many_that_name_each_other_while_all_end(admin: Client, cluster: Cluster) -> None:
    """Nobody waits in a circle for long, nobody is forgotten, and nobody is answered twice."""
    roots = [submit(admin, f"root {number}", gpus=0) for number in range(12)]

    def wait_for_some(number: int) -> str:
        named = [roots[(number * step) % 12] for step in (1, 5, 7)]
        after = [{"group": group, "when": "any"} for group in dict.fromkeys(named)]
        return submit(admin, f"after {number}", *after, gpus=0)

    with ThreadPoolExecutor(6) as pool:
        submits: list[Future[str]] = [pool.submit(wait_for_some, number) for number in range(60)]
        cancels = [pool.submit(admin.delete, f"/v1/groups/{root}") for root in roots]
        assert {each.result(60).status_code for each in cancels} == {202}
        groups = [each.result(60) for each in submits]
    cluster.settle()
    assert set(statuses(admin, *groups)) == {"Running"}
