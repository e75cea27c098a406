"""Retention reads what is old enough, and not the rest of the past."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event, text

from bench.history.past import add_past, settle
from service.clock import SystemClock
from tests.integration.retention.history import DAY, cancel, drop, left, submit
from tests.integration.test_hot_statements import explain, grows_with_the_past

ENDED = 20_000


def test_dropping_a_few_does_not_read_the_many_that_stay(engine: Engine) -> None:
    now = SystemClock().now()
    old = submit(engine, now - 60 * DAY, count=20, key="old")
    cancel(engine, old.public_ids, now - 60 * DAY)
    kept = submit(engine, now - 60 * DAY, count=5, key="kept")
    add_past(engine, ENDED, settles=False)
    with engine.begin() as conn:
        conn.execute(
            text(
                "INSERT INTO idempotency_keys SELECT 't', 'u', i::text, '', '{}', now() - i"
                " * interval '1 second' FROM generate_series(1, 20000) AS i"
            )
        )
    settle(engine)
    growing: dict[str, list[str]] = {}
    explained: set[str] = set()

    def note(conn: Any, _cursor: Any, statement: str, parameters: Any, *_more: object) -> None:
        with conn.connection.dbapi_connection.cursor() as cursor:
            explained.add(statement)
            plan = explain(cursor, statement, parameters)
            # A walk by id is as long as its LIMIT.
            if found := grows_with_the_past(plan["Plans"][0] if plan["Node Type"] == "Limit" else plan):
                growing[statement] = found

    event.listen(engine, "before_cursor_execute", note)
    steps = drop(engine, now)
    event.remove(engine, "before_cursor_execute", note)
    assert sum(step.groups for step in steps) == 20
    assert {group.id for group in kept.groups} <= left(engine)["groups"]
    assert len(explained) > 4
    assert growing == {}
