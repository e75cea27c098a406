"""GET /v1/groups/ID/forecast, and what is learned for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Engine, event, text

from service.clock import SystemClock
from service.domain.principal import KeyRole
from service.settings import Settings
from tests.integration.api.callers import Callers
from tests.integration.api.cluster import Cluster

Client = TestClient[Litestar]


def _submit(client: Client, **fields: Any) -> str:
    answer = client.post("/v1/groups", json={"name": "g", "gpus": 1, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _forecast(client: Client, group_id: str) -> dict[str, Any]:
    answer = client.get(f"/v1/groups/{group_id}/forecast")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def _ran(engine: Engine, like: str, seconds: list[float]) -> None:
    """So long ran earlier groups of the same user in the same queue."""
    with engine.begin() as conn:
        conn.execute(
            text(
                "INSERT INTO runtimes (unit_id, attempt, queue_id, tenant, owner, seconds, is_cut, ended_at)"
                " SELECT n, 1, g.queue_id, g.tenant, g.owner, s, false, now() FROM groups g,"
                " unnest(CAST(:seconds AS float8[])) WITH ORDINALITY AS each (s, n) WHERE g.public_id = :like"
            ),
            {"like": like, "seconds": seconds},
        )


def _expected(engine: Engine, group_id: str) -> int | None:
    with engine.connect() as conn:
        found = conn.execute(
            text("SELECT expected_seconds FROM groups WHERE public_id = :id"), {"id": group_id}
        ).scalar_one()
    return None if found is None else int(found)


def _seconds_from(at: str, beginning: datetime) -> float:
    return (datetime.fromisoformat(at) - beginning).total_seconds()


def test_places_that_are_kept_are_likely_free_when_groups_like_their_holders_end(
    user: Client, cluster: Cluster, engine: Engine
) -> None:
    holder = _submit(user, members=4, time_limit="10h")
    cluster.settle()
    _ran(engine, holder, [600.0, 1200.0, 1800.0, 2400.0, 3000.0])
    head = _submit(user, members=4)
    cluster.settle()
    began = SystemClock().now()
    found = _forecast(user, head)
    assert (found["basis"], found["samples"], found["is_waiting"]) == ("claim", 5, True)
    assert _seconds_from(found["p50_at"], began) == pytest.approx(1800, abs=30)
    assert _seconds_from(found["p90_at"], began) == pytest.approx(3000, abs=30)
    # The date that is promised rests on the time limit, whatever was learned.
    assert _seconds_from(found["planned_start_at"], began) == pytest.approx(36_000, abs=120)
    assert found["assumptions"] == [
        "the group on its places ends as others of its user did",
        "nobody goes before it, and its places stay healthy",
    ]


def test_without_a_claim_it_waits_as_those_that_needed_as_much(
    user: Client, cluster: Cluster, engine: Engine
) -> None:
    _submit(user, members=4)
    cluster.settle()
    head, small = _submit(user, members=4), _submit(user, members=1)
    cluster.settle()
    assert _forecast(user, small)["basis"] is None
    assert _forecast(user, small)["assumptions"] == [
        "no places are kept for it, and too few of default that need as many GPUs started lately"
    ]
    _waited(engine, head, [100.0] * 3 + [1000.0] * 7)
    began = SystemClock().now()
    found = _forecast(user, small)
    assert (found["basis"], found["samples"]) == ("waits", 11)
    assert _seconds_from(found["p50_at"], began) == pytest.approx(1000, abs=30)
    _waited(engine, small, [50.0] * 10)
    # It learns nothing from what needs less.
    assert (_forecast(user, head)["samples"], _forecast(user, small)["samples"]) == (11, 21)


def test_what_is_kept_for_others_comes_before_what_others_waited(
    user: Client, cluster: Cluster, engine: Engine
) -> None:
    _submit(user, members=3, time_limit="1h")
    cluster.settle()
    _submit(user, members=4, time_limit="1h")
    long = _submit(user, members=1, time_limit="2d")
    cluster.settle()
    (reason,) = [
        each
        for each in user.get(f"/v1/groups/{long}/reasons").json()["reasons"]
        if each["code"] == "HeldForClaim"
    ]
    _waited(engine, long, [10.0] * 10)
    found = _forecast(user, long)
    assert found["basis"] == "waits"
    assert datetime.fromisoformat(found["p50_at"]) == datetime.fromisoformat(reason["scope"]["until"])
    assert found["assumptions"][-1] == "but not before what is kept for others is free for it"


def test_what_is_kept_for_others_without_a_date_has_no_forecast(
    user: Client, settings: Settings, engine: Engine, redis: Redis
) -> None:
    at_once = msgspec.structs.replace(settings, guard_seconds=0.001)
    with closing(Cluster(at_once, engine, redis)) as cluster:
        _submit(user, members=3)
        cluster.settle()
        _submit(user, members=4)
        cluster.settle()
        small = _submit(user, members=1)
        cluster.settle()
    (reason,) = user.get(f"/v1/groups/{small}/reasons").json()["reasons"]
    assert (reason["code"], reason["scope"].get("until")) == ("HeldForClaim", None)
    # However soon others of its size started.
    _waited(engine, small, [10.0] * 10)
    found = _forecast(user, small)
    assert (found["is_waiting"], found["basis"], found["samples"]) == (True, None, 0)
    assert (found["p50_at"], found["p90_at"]) == (None, None)
    assert found["assumptions"] == ["what it needs is kept for others, without a date"]


def _waited(engine: Engine, like: str, seconds: list[float]) -> None:
    """Groups of this one's shape started after they had waited so long."""
    with engine.begin() as conn:
        conn.execute(
            text(
                "WITH made AS (INSERT INTO groups (public_id, name, queue_id, shape_id, tenant, owner,"
                " priority, scheduling, member_count, submitted_at, grace_seconds, on_member_loss,"
                " max_restarts, backoff_seconds, seat_timeout_seconds, is_preemptible, labels)"
                " SELECT gen_random_uuid(), 'x', g.queue_id, g.shape_id, g.tenant, g.owner, 0, g.scheduling,"
                " g.member_count, now() - make_interval(secs => s), 0, g.on_member_loss, 0, 0, 0, true, '{}'"
                " FROM groups g, unnest(CAST(:seconds AS float8[])) AS s WHERE g.public_id = :like"
                " RETURNING id) INSERT INTO events (is_feed, at, kind, group_id, attempt, actor)"
                " SELECT false, now(), 'Admitted', id, 1, 'x' FROM made"
            ),
            {"like": like, "seconds": seconds},
        )


def test_what_does_not_wait_or_may_not_start_or_never_fits_has_none(user: Client, cluster: Cluster) -> None:
    running = _submit(user, members=4)
    cluster.settle()
    held = _submit(user, members=1, not_before=(SystemClock().now() + timedelta(hours=1)).isoformat())
    never = _submit(user, members=5)
    cluster.settle()
    for group_id, said in (
        (running, "nothing of it waits"),
        (held, "it may not start now: its reasons say why"),
        (never, "it never fits: its reasons say why"),
    ):
        found = _forecast(user, group_id)
        assert (found["basis"], found["p50_at"], found["assumptions"]) == (None, None, [said])


def test_it_is_for_who_may_see_the_group(user: Client, callers: Callers) -> None:
    group_id = _submit(user)
    other = callers.make(KeyRole.USER, user="other")
    assert other.get(f"/v1/groups/{group_id}/forecast").status_code == 404


def test_how_long_it_is_expected_to_run_is_noted_when_it_is_submitted(
    user: Client, callers: Callers, engine: Engine
) -> None:
    first = _submit(user)
    assert _expected(engine, first) is None
    _ran(engine, first, [10.0, 20.0, 30.2, 40.0, 50.0])
    # What a process has learned is good for a minute.
    assert _expected(engine, _submit(user)) is None
    other = callers.make(KeyRole.USER, user="other")
    assert _expected(engine, _submit(other)) == 31


def test_what_is_expected_of_a_batch_is_looked_up_at_once(
    user: Client, admin: Client, engine: Engine
) -> None:
    _ran(engine, _submit(user), [10.0, 20.0, 30.0, 40.0, 50.0])
    queues = [f"q{number}" for number in range(5)]
    for queue in queues:
        assert admin.post("/v1/queues", json={"name": queue}).status_code == 201
    groups = [{"name": "g", "gpus": 1, "command": ["x"], "queue": queue} for queue in queues]
    with _looked_up() as statements:
        answer = user.post("/v1/groups/batch", json={"groups": groups})
        assert answer.status_code == 201, answer.text
    assert len(statements) == 1
    # Nobody has run anything there yet: what all ran is known.
    assert {_expected(engine, group["id"]) for group in answer.json()["groups"]} == {30}


@contextmanager
def _looked_up() -> Iterator[list[str]]:
    """Statements that read runtimes."""
    found: list[str] = []

    def note(_1: Any, _2: Any, statement: str, *_: Any) -> None:
        if "runtimes" in statement:
            found.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", note)
