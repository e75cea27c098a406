"""A queue that is drained takes no groups, gives back what it holds, and is gone when it is empty."""

from __future__ import annotations

from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Connection, Engine, event, text

from service.clock import SystemClock
from service.operations.delete_queue import MOST_UNITS, Progress, empty_queues
from tests.integration.api.cluster import Cluster
from tests.integration.api.waiting import wait_until
from workers.draining import Draining

Client = TestClient[Litestar]

GROUP = {"queue": "q", "gpus": 1, "command": ["true"], "checkpoint": {"grace": 0}}


def submit(client: Client, name: str, **fields: object) -> str:
    answer = client.post("/v1/groups", json=GROUP | {"name": name} | fields)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def status(client: Client, group: str) -> str:
    return str(client.get(f"/v1/groups/{group}").json()["status"])


def drained(engine: Engine) -> bool:
    (done,) = empty_queues(engine, known={}, now=SystemClock().now())
    return done.has_changed


def make(admin: Client) -> None:
    cohort = admin.post("/v1/cohorts", json={"name": "org"})
    body = {"name": "q", "cohort": "org", "nominal_quota": {"H100-80GB": 4}}
    assert (cohort.status_code, admin.post("/v1/queues", json=body).status_code) == (201, 201)


def test_a_queue_is_drained_and_gone(admin: Client, user: Client, engine: Engine, cluster: Cluster) -> None:
    make(admin)
    running = submit(user, "runs", members=3)
    cluster.settle()
    waiting = [submit(user, "waits", members=3), submit(user, "many", members=5, scheduling="independent")]
    after = submit(user, "after", queue="default", after=[{"group": waiting[0], "when": "ok"}])
    assert status(user, running) == "Running"

    refused = admin.delete("/v1/queues/q")
    assert refused.status_code == 409
    # A gang that runs, one that waits, and one whose members are each on their own.
    said = "Queue q has 3 groups that have not ended. Cancel them first, or drain the queue."
    assert refused.json()["detail"] == said
    for _ in range(2):
        assert admin.delete("/v1/queues/q?drain=true").status_code == 202
    shown = admin.get("/v1/queues/q").json()
    assert (shown["stop"], shown["deleting_at"] is None) == ("hold_and_drain", False)

    # It takes nothing, and cannot be brought back.
    assert user.post("/v1/groups", json=GROUP | {"name": "late"}).status_code == 422
    assert admin.patch("/v1/queues/q", json={"stop": "none"}).status_code == 409
    assert admin.post("/v1/queues", json={"name": "q"}).status_code == 409
    assert [each["name"] for each in admin.get("/v1/policy").json()["queues"]] == ["default"]
    assert admin.put("/v1/policy", json={"queues": [{"name": "q"}]}).status_code == 409
    # What is on its way out still needs its cohort.
    assert admin.delete("/v1/cohorts/org").status_code == 409
    pruned = admin.put("/v1/policy?prune=true", json={"queues": [{"name": "default"}]})
    assert pruned.status_code == 422

    assert drained(engine)
    assert [status(user, group) for group in waiting] == ["Cancelled"] * 2
    assert status(user, after) == "Cancelled"
    assert status(user, running) == "Evicting"
    assert not drained(engine), "it holds places yet"
    cluster.settle()
    assert status(user, running) == "Cancelled"
    assert drained(engine)
    assert admin.get("/v1/queues/q").status_code == 404
    assert empty_queues(engine, known={}, now=SystemClock().now()) == []
    assert admin.delete("/v1/cohorts/org").status_code == 202
    with engine.connect() as conn:
        query = text("SELECT data->>'change' FROM events WHERE kind = 'QueueChanged' ORDER BY id")
        assert list(conn.execute(query).scalars()) == ["created", "draining", "deleted"]
    for group in (running, *waiting):
        events = user.get(f"/v1/groups/{group}/events").json()["events"]
        (ended,) = [each for each in events if each["kind"] == "Cancelled"]
        assert ended["data"]["message"] == "cancelled because queue q is being deleted"


def test_an_empty_queue_needs_no_drain(admin: Client) -> None:
    make(admin)
    assert admin.delete("/v1/queues/q?drain=true").status_code == 202
    assert admin.get("/v1/queues/q").status_code == 404


def test_a_queue_is_emptied_step_by_step(admin: Client, engine: Engine) -> None:
    make(admin)
    count = MOST_UNITS + 10
    batch = {"groups": [GROUP | {"name": f"g{number}"} for number in range(count)]}
    assert admin.post("/v1/groups/batch", json=batch).status_code == 201
    assert admin.delete("/v1/queues/q?drain=true").status_code == 202
    drain = Steps(engine)
    assert [drain.step() for _ in range(2)] == [(True, True), (True, False)]
    assert drain.step()[0]
    assert admin.get("/v1/queues/q").status_code == 404
    with engine.connect() as conn:
        statuses = conn.execute(text("SELECT status, count(*) FROM units GROUP BY 1")).all()
    assert [tuple(row) for row in statuses] == [("Cancelled", count)]


def test_rows_are_counted_where_a_group_has_many(
    admin: Client, user: Client, engine: Engine, cluster: Cluster
) -> None:
    """Members of an independent group that have been admitted come back as rows of their own."""
    make(admin)
    count = MOST_UNITS + 10
    many = submit(user, "many", scheduling="independent", members=count, gpus=0)
    with engine.begin() as conn:
        _split_into_members(conn)
    assert admin.delete("/v1/queues/q?drain=true").status_code == 202
    drain = Steps(engine)
    assert drain.step() == (True, True)
    assert user.get(f"/v1/groups/{many}").json()["units"] == {"Cancelled": MOST_UNITS, "Pending": 10}
    assert drain.step() == (True, False)
    assert status(user, many) == "Cancelled"


def test_while_something_holds_places_what_waits_is_looked_through_once(
    admin: Client, user: Client, engine: Engine, cluster: Cluster
) -> None:
    make(admin)
    holds = submit(user, "holds", checkpoint={"grace": 600})
    cluster.settle()
    waits = submit(user, "waits", gpus=4)
    assert admin.delete("/v1/queues/q?drain=true").status_code == 202
    drain = Steps(engine)
    assert drain.step() == (True, False)
    assert status(user, waits) == "Cancelled"
    assert "Pending" in "".join(drain.statements), "it looked at what waits"
    for _ in range(3):
        drain.statements.clear()
        assert drain.step() == (False, False)
        assert not [each for each in drain.statements if "Pending" in each], "it looked again"
    # Whoever gives its places back may wait again, and is looked at alone.
    with engine.begin() as conn:
        conn.execute(text("UPDATE units SET status = 'Pending' WHERE ended_at IS NULL"))
        conn.execute(text("DELETE FROM attempts"))
    assert drain.step() == (True, False)
    assert status(user, holds) == "Cancelled"
    assert drain.step() == (True, True)
    assert admin.get("/v1/queues/q").status_code == 404


class Steps:
    """The steps of one drain, each from where the one before has come to."""

    def __init__(self, engine: Engine) -> None:
        self.statements: list[str] = []
        self._engine = engine
        self._known: dict[int, Progress] = {}
        event.listen(engine, "before_cursor_execute", self._note)

    def step(self) -> tuple[bool, bool]:
        """Whether it changed anything, and whether more is to be looked through."""
        (done,) = empty_queues(self._engine, known=self._known, now=SystemClock().now())
        self._known = {done.queue_id: done.progress}
        return done.has_changed, done.progress.passed_id is not None

    def _note(self, _conn: object, _cursor: object, statement: str, *_more: object) -> None:
        self.statements.append(statement)


def _split_into_members(conn: Connection) -> None:
    """As if each member of the only group had been admitted once, and waited again."""
    columns = "status, attempt, version, is_held, restarts_used, refused_dispatches, failed_nodes"
    conn.execute(
        text(
            f"INSERT INTO units (id, group_id, first_index, last_index, {columns})"
            f" SELECT (group_id << 20) | n, group_id, n, n, {columns}"
            " FROM units, generate_series(0, last_index - 1) n"
        )
    )
    conn.execute(text("UPDATE units SET first_index = last_index"))


def test_only_an_admin_drains(operator: Client) -> None:
    assert operator.delete("/v1/queues/default?drain=true").status_code == 403


def test_draining_goes_on_after_the_database_ended_a_statement(
    admin: Client, user: Client, engine: Engine, redis: Redis
) -> None:
    make(admin)
    waits = submit(user, "waits", gpus=0, not_before="2999-01-01T00:00:00Z")
    submit(user, "after", gpus=0, queue="default", after=[{"group": waits, "when": "any"}])
    assert admin.delete("/v1/queues/q?drain=true").status_code == 202
    draining = Draining(engine, redis, clock=SystemClock())
    with engine.connect() as blocker, engine.connect() as watcher:
        # It has to tell the second group of the end of the first.
        blocker.execute(text("SELECT FROM groups WHERE name = 'after' FOR UPDATE"))
        draining.start()
        try:
            wait_until(lambda: _cancel_whoever_waits(watcher))
            blocker.rollback()
            wait_until(lambda: admin.get("/v1/queues/q").status_code == 404)
        finally:
            blocker.rollback()
            draining.stop()


def _cancel_whoever_waits(conn: Connection) -> bool:
    cancelled = conn.execute(
        text(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
    ).all()
    conn.commit()
    return bool(cancelled)
