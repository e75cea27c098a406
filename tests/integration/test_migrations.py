"""Migrations on a real server: up from nothing, the same as the code's tables, down, and up again;
and the rules that the schema itself holds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import IntegrityError

from service.store import migrate


def tables(url: str) -> set[str]:
    engine = create_engine(url)
    try:
        return set(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def test_up_from_empty_check_down_and_up_again(empty_database_url: str) -> None:
    migrate.upgrade(empty_database_url)
    migrate.check(empty_database_url)
    assert {"groups", "units", "attempts", "held_devices", "events"} <= tables(empty_database_url)
    migrate.downgrade(empty_database_url)
    assert tables(empty_database_url) == {"alembic_version"}
    migrate.upgrade(empty_database_url)
    migrate.check(empty_database_url)


def test_every_constraint_has_looked_at_the_rows_that_are_there(database_url: str) -> None:
    engine = create_engine(database_url)
    try:
        with engine.connect() as conn:
            query = "SELECT conname FROM pg_constraint WHERE NOT convalidated"
            assert conn.execute(text(query)).scalars().all() == []
    finally:
        engine.dispose()


def test_running_it_again_changes_nothing(database_url: str) -> None:
    before = tables(database_url)
    migrate.upgrade(database_url)
    assert tables(database_url) == before


def test_two_migrators_at_once_take_turns(empty_database_url: str) -> None:
    command = [
        sys.executable,
        "-c",
        "import sys; from service.store.migrate import upgrade; upgrade(sys.argv[1])",
    ]
    both = [subprocess.Popen([*command, empty_database_url]) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    migrate.check(empty_database_url)


@pytest.fixture
def conn(database_url: str) -> Iterator[Connection]:
    """A database with one node of two devices, and two units that hold an attempt each."""
    engine = create_engine(database_url)
    with engine.connect() as connection:
        for statement in _ROWS:
            connection.execute(text(statement))
        connection.commit()
        yield connection
        connection.rollback()
    engine.dispose()


_GROUP = (
    "INSERT INTO groups (id, public_id, name, queue_id, shape_id, tenant, owner, priority, scheduling,"
    " member_count, submitted_at, grace_seconds, on_member_loss, max_restarts, backoff_seconds,"
    " seat_timeout_seconds, is_preemptible, labels) OVERRIDING SYSTEM VALUE SELECT {id}, gen_random_uuid(),"
    " 'g', q.id, 1, 't', 'u', 0, 'gang', 1, now(), 0, 'fail', 0, 0, 60, true, '{{}}' FROM queues q"
)
_UNIT = (
    "INSERT INTO units (id, group_id, first_index, last_index, status, attempt, version, is_held,"
    " restarts_used, refused_dispatches, failed_nodes)"
    " VALUES ({id}::bigint << 20, {id}, 0, 0, 'Running', 1, 0, false, 0, 0, '{{}}')"
)
_ATTEMPT = (
    "INSERT INTO attempts (unit_id, attempt, revision, generation, group_id, queue_id, pool_id, places,"
    " usage, dispatch, dispatches, admitted_at)"
    " SELECT {id}::bigint << 20, 1, 1, 1, {id}, q.id, 1, '[]', '{{}}',"
    " 'Launched', 1, now() FROM queues q"
)
_ROWS = (
    (
        "INSERT INTO pools (id, name, launcher, levels) OVERRIDING SYSTEM VALUE"
        " VALUES (1, 'p', 'local', '{host}')"
    ),
    (
        "INSERT INTO nodes (id, name, pool_id, cpus_milli, memory_mib, labels, is_ready, is_cordoned,"
        " updated_at)"
        " OVERRIDING SYSTEM VALUE VALUES (1, 'n', 1, 1, 1, '{}', true, false, now())"
    ),
    (
        "INSERT INTO devices (node_id, device, model, memory_mib, is_healthy)"
        " VALUES (1, 0, 'mx', 1, true), (1, 1, 'mx', 1, true)"
    ),
    "INSERT INTO shapes (id, digest, shape) OVERRIDING SYSTEM VALUE VALUES (1, '\\x00', '{}')",
    *(template.format(id=number) for number in (1, 2) for template in (_GROUP, _UNIT, _ATTEMPT)),
    "INSERT INTO held_devices (node_id, device, unit_id) VALUES (1, 0, 1::bigint << 20)",
)


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        pytest.param(
            "INSERT INTO held_devices (node_id, device, unit_id) VALUES (1, 0, 2::bigint << 20)",
            "pk_held_devices",
            id="a device has one holder",
        ),
        pytest.param(_ATTEMPT.format(id=1), "pk_attempts", id="a unit has one live attempt"),
        pytest.param(
            "UPDATE units SET status = 'Succeeded'",
            "ck_units_ended",
            id="an ended unit has the instant of its end",
        ),
        pytest.param("UPDATE units SET ended_at = now()", "ck_units_ended", id="a live unit has not ended"),
        pytest.param(
            "UPDATE units SET status = 'Lost'", "ck_units_status", id="a status of the table of edges"
        ),
        pytest.param(
            "UPDATE units SET last_index = 3, id = id + 3 WHERE id = 2::bigint << 20",
            "ck_units_only_waiting_ranges",
            id="a live unit is no range",
        ),
        pytest.param(
            "UPDATE units SET last_index = 3", "ck_units_id", id="an id says which members it covers"
        ),
        pytest.param(
            "UPDATE attempts SET evict_target = 'Failed'",
            "ck_attempts_evicting",
            id="an eviction has its instant",
        ),
        pytest.param(
            "INSERT INTO quotas (queue_id, resource, nominal, hard_limit) SELECT id, 'mx', 9, 8 FROM queues",
            "ck_quotas_nominal_within_limit",
            id="nominal quota within the limit",
        ),
        pytest.param(
            "INSERT INTO quotas (queue_id, resource, nominal) SELECT id, 'mx', -1 FROM queues",
            "ck_quotas_not_negative",
            id="no negative quota",
        ),
    ],
)
def test_the_schema_refuses(conn: Connection, statement: str, constraint: str) -> None:
    with pytest.raises(IntegrityError, match=constraint):
        conn.execute(text(statement))


def test_holds_end_with_their_attempt(conn: Connection) -> None:
    conn.execute(text("INSERT INTO held_devices (node_id, device, unit_id) VALUES (1, 1, 2::bigint << 20)"))
    conn.execute(text("DELETE FROM attempts WHERE unit_id = 1::bigint << 20"))
    assert conn.execute(text("SELECT device, unit_id >> 20 FROM held_devices")).all() == [(1, 2)]
    conn.execute(text("DELETE FROM attempts"))
    assert conn.execute(text("SELECT count(*) FROM held_devices")).scalar_one() == 0
