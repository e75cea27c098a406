"""What asks for units that wait or live costs what they are, however many have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text
from uuid_utils.compat import uuid7

from service.domain.shape import Scheduling
from service.store.engine import make_engine
from service.store.group_lists import GroupFilter, count_waiting_before, list_groups
from service.store.group_reads import GroupRow
from service.store.measure_rows import read_unended
from service.store.queues import count_unended_groups, list_waiting_units
from service.store.usage import waiting_by_queue
from service.store.world_rows import read_all_units

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENDED = 20_000
WAITING = 10

_ROWS = (
    'INSERT INTO shapes (digest, shape) VALUES (\'\', \'{"scheduling": "gang", "roles": []}\')',
    f"""INSERT INTO groups (public_id, name, queue_id, shape_id, tenant, owner, priority, scheduling,
          member_count, submitted_at, grace_seconds, on_member_loss, max_restarts, backoff_seconds,
          seat_timeout_seconds, is_preemptible, labels)
        SELECT gen_random_uuid(), 'g', q.id, s.id, 't', 'o', 0, 'gang', 1,
          timestamptz '2026-01-01Z' + make_interval(secs => i), 0, 'fail', 0, 0, 0, true, '{{}}'
        FROM queues q, shapes s, generate_series(1, {ENDED + WAITING}) i""",
    f"""INSERT INTO units (id, group_id, first_index, last_index, status, attempt, version, is_held,
          restarts_used, refused_dispatches, failed_nodes, ended_at)
        SELECT id << 20, id, 0, 0, CASE WHEN id <= {ENDED} THEN 'Succeeded' ELSE 'Pending' END, 1, 1, false,
          0, 0, '{{}}', CASE WHEN id <= {ENDED} THEN submitted_at END
        FROM groups""",
)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A history of many ended groups, and a few that wait."""
    engine = make_engine(database_url)
    with engine.begin() as conn:
        for statement in _ROWS:
            conn.execute(text(statement))
        conn.execute(text("ANALYZE"))
    yield engine
    engine.dispose()


def last_group() -> GroupRow:
    return GroupRow(
        id=ENDED + WAITING,
        public_id=uuid7(),
        name="g",
        queue_id=1,
        queue="default",
        shape_id=1,
        tenant="t",
        owner="o",
        priority=0,
        scheduling=Scheduling.GANG,
        member_count=1,
        submitted_at=datetime(2027, 1, 1, tzinfo=UTC),
        time_limit_seconds=None,
        grace_seconds=0,
        labels={},
    )


def waiting_groups(conn: Connection) -> int:
    return len(list_groups(conn, GroupFilter(is_waiting=True), after=None, limit=100))


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda conn: read_unended(conn).waits[0].groups, WAITING),
        (lambda conn: waiting_by_queue(conn)[1].groups, WAITING),
        (lambda conn: count_waiting_before(conn, last_group(), now=NOW), WAITING - 1),
        (lambda conn: len(read_all_units(conn)[0]), WAITING),
        (lambda conn: count_unended_groups(conn, 1), WAITING),
        (waiting_groups, WAITING),
        (lambda conn: len(list_waiting_units(conn, 1, after_id=0, limit=100)), WAITING),
    ],
    ids=[
        "read_unended",
        "waiting_by_queue",
        "before",
        "read_all_units",
        "unended_groups",
        "list_groups",
        "to_be_cancelled",
    ],
)
def test_ended_units_are_not_looked_at(
    engine: Engine, read: Callable[[Connection], int], expected: int
) -> None:
    asked: list[tuple[str, Any]] = []

    def note(_conn: object, _cursor: object, statement: str, parameters: Any, *_more: object) -> None:
        asked.append((statement, parameters))

    with engine.connect() as conn:
        event.listen(conn, "before_cursor_execute", note)
        assert read(conn) == expected
        event.remove(conn, "before_cursor_execute", note)
        for statement, parameters in asked:
            plan = conn.exec_driver_sql("EXPLAIN (ANALYZE, TIMING OFF) " + statement, parameters)
            lines = [row[0] for row in plan]
            assert not [line for line in lines if "Seq Scan on units" in line], lines
            assert any("ix_units_unended" in line for line in lines), lines
