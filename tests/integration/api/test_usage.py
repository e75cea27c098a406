"""GET /v1/usage and /v1/queues/NAME/runtimes: own figures, and for operators everybody's."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from service.admission.forecast import FEWEST
from service.clock import SystemClock
from service.domain.principal import KeyRole
from service.operations.charge import charge_closed_attempts
from service.operations.learned_runtimes import Basis, KnownRuntimes, best_runtimes
from tests.integration.api.callers import Callers

Client = TestClient[Litestar]

_HOUR = timedelta(hours=1)
_CLOSED = """
WITH ended AS (
  SELECT u.id, u.group_id, g.queue_id FROM units u JOIN groups g ON g.id = u.group_id WHERE g.public_id = :id
), noted AS (
  INSERT INTO uncharged_attempts (unit_id, attempt) SELECT id, :attempt FROM ended
)
INSERT INTO closed_attempts (unit_id, attempt, group_id, queue_id, generation, dispatches, places, usage,
  admitted_at, running_at, ended_at, closed_at, outcome, cause, gpu_seconds)
SELECT id, :attempt, group_id, queue_id, 1, 1, '[]', '{"H100-80GB": 2, "cpus": 4000, "memory": 2048}',
  :start, :start, :end, :end, CASE WHEN :cause IS NULL THEN 'Succeeded' ELSE 'Requeued' END, :cause, 0
FROM ended
"""
_LIVE = """
INSERT INTO attempts (unit_id, attempt, revision, generation, group_id, queue_id, pool_id, places, usage,
  dispatch, dispatches, admitted_at)
SELECT u.id, 9, 1, 1, u.group_id, g.queue_id, 1, '[]', '{"H100-80GB": 1}', 'Launched', 1, :start
FROM units u JOIN groups g ON g.id = u.group_id WHERE g.public_id = :id
"""

#: Each longer than the ones before it, so that no two medians are the same.
_RAN = """
INSERT INTO runtimes (unit_id, attempt, queue_id, tenant, owner, seconds, is_cut, ended_at)
SELECT 10000 * :number + n, 1, :q, 'default', :owner, 1000.5 * (:number + 1) + n, false,
  now() - make_interval(secs => :count - n) FROM generate_series(1, :count) n
"""


class Past:
    """Attempts of one group of two GPUs that are over."""

    def __init__(self, engine: Engine, client: Client) -> None:
        answer = client.post("/v1/groups", json={"name": "g", "members": 1, "gpus": 1, "command": ["true"]})
        assert answer.status_code == 201, answer.text
        self._id = answer.json()["id"]
        self._engine = engine
        self._attempts = 0
        self.now = SystemClock().now()

    def held(self, *, hours: float, ago: float, cause: str | None = None) -> None:
        self._attempts += 1
        end = self.now - ago * _HOUR
        values = {"id": self._id, "attempt": self._attempts, "cause": cause}
        self._execute(
            _CLOSED.replace(":cause", "CAST(:cause AS text)"), start=end - hours * _HOUR, end=end, **values
        )

    def holds_since(self, hours: float) -> None:
        self._execute(_LIVE, id=self._id, start=self.now - hours * _HOUR)

    def _execute(self, statement: str, **values: object) -> None:
        with self._engine.begin() as conn:
            conn.execute(text(statement), values)


def usage(client: Client, **query: str) -> dict[tuple[str, str], dict[str, float]]:
    answer = client.get("/v1/usage", params=query)
    assert answer.status_code == 200, answer.text
    return {(each["user"], each["resource"]): each for each in answer.json()["usage"]}


def test_hours_lost_hours_and_what_counts_yet(engine: Engine, callers: Callers, operator: Client) -> None:
    alice = callers.make(KeyRole.USER, user="alice")
    with engine.begin() as conn:
        conn.execute(text("UPDATE usage_decay SET half_life_seconds = 7200"))
    past = Past(engine, alice)
    past.held(hours=3, ago=4)
    charge_closed_attempts(engine)
    past.held(hours=1, ago=2, cause="Preempted")

    found = usage(alice)
    assert found["alice", "H100-80GB"]["hours"] == pytest.approx(2 * 4)
    assert found["alice", "H100-80GB"]["lost_hours"] == pytest.approx(2 * 1)
    assert found["alice", "cpus"]["hours"] == pytest.approx(4 * 4)
    assert found["alice", "memory_gib"]["hours"] == pytest.approx(2 * 4)
    # Four hours later a quarter of it is left.
    at_end = 2 * 2 / 0.6931471805599453 * (1 - 2 ** (-3 / 2))
    assert found["alice", "H100-80GB"]["decayed_hours"] == pytest.approx(at_end / 4, rel=1e-3)
    assert operator.get("/v1/usage").json()["half_life"] == "2h"

    past.holds_since(0.5)
    running = usage(alice, resource="H100-80GB")["alice", "H100-80GB"]
    assert running["held_now"] == 1
    assert running["hours"] == pytest.approx(8.5, rel=1e-3)


def test_whether_it_was_charged_yet_does_not_show(engine: Engine, callers: Callers) -> None:
    alice = callers.make(KeyRole.USER, user="alice")
    past = Past(engine, alice)
    for ago in range(4):
        past.held(hours=2, ago=ago)
    before = usage(alice)
    assert charge_closed_attempts(engine) == 4
    assert usage(alice) == {key: pytest.approx(each) for key, each in before.items()}


def test_owners_see_their_own_and_operators_all(engine: Engine, callers: Callers, operator: Client) -> None:
    alice, bob = (callers.make(KeyRole.USER, user=user) for user in ("alice", "bob"))
    for client in (alice, bob):
        Past(engine, client).held(hours=1, ago=1)
    assert {user for user, _ in usage(alice)} == {"alice"}
    assert {user for user, _ in usage(operator)} == {"alice", "bob"}
    assert {user for user, _ in usage(operator, user="bob")} == {"bob"}
    assert {resource for _, resource in usage(operator, resource="memory_gib")} == {"memory_gib"}
    assert usage(operator, queue="none") == {}
    assert usage(operator, tenant="none") == {}
    assert usage(alice, user="bob") == {}
    assert usage(alice, user="alice") == usage(alice)


def test_runtimes_of_a_user_of_the_queue_or_of_all(
    engine: Engine, callers: Callers, operator: Client
) -> None:
    alice, bob = (callers.make(KeyRole.USER, user=user) for user in ("alice", "bob"))

    def runtimes(client: Client, **query: str) -> dict[str, object]:
        answer = client.get("/v1/queues/default/runtimes", params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, object] = answer.json()
        return found

    assert runtimes(alice)["basis"] is None
    past = Past(engine, alice)
    for number in range(1, 12):
        past.held(hours=number, ago=number)
    # What was preempted says nothing of how long it would have run.
    past.held(hours=100, ago=1, cause="Preempted")
    past.held(hours=12, ago=1, cause="TimeLimit")
    charge_closed_attempts(engine)

    own = runtimes(alice)
    assert (own["basis"], own["samples"], own["at_limit"]) == ("user", 12, 1)
    assert own["p50_seconds"] == pytest.approx(6.5 * 3600)
    assert own["p90_seconds"] == pytest.approx(10.9 * 3600)
    assert runtimes(bob) == {**own, "user": "bob", "basis": "queue"}
    assert runtimes(operator, user="alice") == own
    assert bob.get("/v1/queues/default/runtimes", params={"user": "alice"}).status_code == 404
    assert alice.get("/v1/queues/none/runtimes").status_code == 404


_USED = """
INSERT INTO usage (queue_id, tenant, owner, resource, held_seconds, lost_seconds, decayed_seconds, as_of)
SELECT q.id, 'default', 'u' || n, resource, 3600, 0, 0, now()
FROM queues q, generate_series(1, 5) AS n, (VALUES ('cpus'), ('H100-80GB')) AS r (resource)
WHERE q.name = 'default'
"""


def test_usage_comes_page_by_page(engine: Engine, operator: Client) -> None:
    with engine.begin() as conn:
        conn.execute(text(_USED))
    whole = operator.get("/v1/usage").json()
    assert (len(whole["usage"]), whole["cursor"]) == (10, None)
    pages, query = [], {"limit": "3"}
    while True:
        answer = operator.get("/v1/usage", params=query).json()
        pages.append(answer["usage"])
        if answer["cursor"] is None:
            break
        query["cursor"] = answer["cursor"]
    assert [len(page) for page in pages] == [3, 3, 3, 1]
    assert [each for page in pages for each in page] == whole["usage"]


def test_pages_are_as_of_the_first(engine: Engine, callers: Callers, operator: Client) -> None:
    """What runs goes on between two pages, and is told for one instant all the same."""
    past = Past(engine, callers.make(KeyRole.USER, user="alice"))
    past.holds_since(2)
    with engine.begin() as conn:
        conn.execute(text("UPDATE usage_decay SET half_life_seconds = 1"))
        conn.execute(text(_USED))
        conn.execute(text("UPDATE usage SET decayed_seconds = 3600"))
    first = operator.get("/v1/usage", params={"limit": 1}).json()
    rest, again = (
        operator.get("/v1/usage", params={"cursor": first["cursor"], "limit": 1000}).json() for _ in range(2)
    )
    assert rest["as_of"] == again["as_of"] == first["as_of"]
    assert rest == again
    # The last row of the first page is not said again, and what runs counts up to that instant.
    assert len(first["usage"] + rest["usage"]) == 11
    as_of = datetime.fromisoformat(first["as_of"])
    (held,) = [each for each in first["usage"] + rest["usage"] if each["user"] == "alice"]
    assert held["hours"] == pytest.approx((as_of - past.now) / _HOUR + 2)


def test_one_page_is_enough_for_most(operator: Client) -> None:
    assert operator.get("/v1/usage", params={"limit": 10_000}).json()["cursor"] is None
    assert operator.get("/v1/usage", params={"limit": 10_001}).status_code == 422


def test_a_last_page_has_no_cursor(engine: Engine, operator: Client) -> None:
    with engine.begin() as conn:
        conn.execute(text(_USED))
    first = operator.get("/v1/usage", params={"limit": 5, "resource": "cpus"}).json()
    assert (len(first["usage"]), first["cursor"]) == (5, None)


def test_a_cursor_of_something_else_is_refused(operator: Client) -> None:
    for number in range(2):
        operator.post("/v1/groups", json={"name": f"g{number}", "gpus": 1}).raise_for_status()
    of_groups = operator.get("/v1/groups", params={"limit": 1}).json()["cursor"]
    for cursor in ("nonsense", of_groups):
        answer = operator.get("/v1/usage", params={"cursor": cursor})
        assert answer.status_code == 422
        assert [error["field"] for error in answer.json()["errors"]] == ["cursor"]


def test_what_a_submit_expects_is_what_a_reader_is_told(engine: Engine, admin: Client) -> None:
    """One rule in Python and in SQL: whose attempts count, from how many on, and the newest of how many."""
    for name in ("b", "c", "d"):
        assert admin.post("/v1/queues", json={"name": name}).status_code == 201
    with engine.connect() as conn:
        one, two, three, four = conn.execute(text("SELECT id FROM queues ORDER BY id")).scalars()
    # Of too few: not a user's own, not a queue's. Of more than are looked at: the newest.
    counts = {
        (one, "own"): FEWEST,
        (one, "few"): FEWEST - 1,
        (two, "few"): FEWEST - 1,
        (three, "own"): 1_000 + FEWEST,
        (three, "few"): 1,
    }
    with engine.begin() as conn:
        for number, ((queue_id, owner), count) in enumerate(counts.items()):
            values = {"q": queue_id, "owner": owner, "count": count, "number": number}
            conn.execute(text(_RAN), values)
    asked = [
        (queue_id, "default", owner)
        for queue_id in (one, two, three, four)
        for owner in ("own", "few", "none")
    ]
    with engine.connect() as conn:
        expected = KnownRuntimes().expected_seconds(conn, asked, now=SystemClock().now())
        told = {key: best_runtimes(conn, queue_id=key[0], owner=(key[1], key[2])) for key in asked}
    assert {basis for basis, _ in told.values()} == {Basis.USER, Basis.QUEUE, Basis.ALL}
    assert len(set(expected.values())) == 4
    for key, (_, found) in told.items():
        assert found.p50_seconds is not None
        assert expected[key] == ceil(found.p50_seconds), key
    with engine.begin() as conn:
        conn.execute(text("DELETE FROM runtimes WHERE queue_id <> :two"), {"two": two})
    with engine.connect() as conn:
        basis, _ = best_runtimes(conn, queue_id=two, owner=("default", "few"))
        (seconds,) = (
            KnownRuntimes()
            .expected_seconds(conn, [(two, "default", "few")], now=SystemClock().now())
            .values()
        )
    assert (basis, seconds) == (None, None)
