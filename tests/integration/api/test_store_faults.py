"""What a caller is told, and what is left, when PostgreSQL fails in the middle of a request."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection, Engine, text

from tests.integration.api.waiting import wait_until
from tests.lines import CutAt, PostgresLine, Talk
from tests.serving import Served, serving

GROUP = {"name": "g", "members": 2, "gpus": 1, "command": ["true"]}
_MOST_MESSAGES = 40
#: However many wait, all are answered by then: a lock is waited for ten seconds, by those that were
#: written together and failed once more apart.
ANSWER_SECONDS = 25.0


@pytest.fixture
def line(database_url: str, server_folder: Path) -> Iterator[PostgresLine]:
    with PostgresLine(database_url, server_folder) as line:
        yield line


@pytest.fixture
def served(line: PostgresLine, redis_url: str, tmp_path: Path) -> Iterator[Served]:
    with serving(database_url=line.url, redis_url=redis_url, data=tmp_path) as served:
        yield served


@pytest.fixture
def api(served: Served) -> Iterator[httpx.Client]:
    with served.caller(timeout=60) as client:
        yield client


def submit(api: httpx.Client, key: str) -> httpx.Response:
    return api.post("/v1/groups", json=GROUP, headers={"Idempotency-Key": key})


def assert_refused(answer: httpx.Response) -> str:
    """503 with problem details that name PostgreSQL, and when to come again; what it says."""
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["type"] == "/problems/store-unavailable"
    detail: str = answer.json()["detail"]
    assert "PostgreSQL" in detail
    return detail


def count(engine: Engine, table: str) -> int:
    with engine.connect() as conn:
        return int(conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


# ------------------------------------------------------------ lost replies
@pytest.mark.parametrize("is_heard", [False, True], ids=["unheard", "carried out"])
def test_a_submit_that_is_cut_off_anywhere_makes_one_group_when_it_is_repeated(
    api: httpx.Client, line: PostgresLine, engine: Engine, is_heard: bool
) -> None:
    """Whether PostgreSQL heard or not. The caller is told to come again, and its key finds what is there."""
    assert submit(api, str(uuid.uuid4())).status_code == 201
    for number in range(1, _MOST_MESSAGES):
        key, cut = str(uuid.uuid4()), CutAt(number)
        (line.after if is_heard else line.before)(b"", cut)
        first = submit(api, key)
        line.heal()
        if first.status_code != 201:
            assert_refused(first)
        again = submit(api, key)
        assert again.status_code in (200, 201), again.text
        assert first.status_code == 503 or first.json()["id"] == again.json()["id"]
        assert count(engine, "groups") == number + 1
        assert count(engine, "units") == number + 1
        assert count(engine, "events") == number + 1
        if not cut.has_cut:
            break
    else:
        raise AssertionError("the sweep has no end")
    assert number > 4, "it cut something"


def test_a_commit_whose_reply_is_lost_is_told_as_unknown(
    api: httpx.Client, line: PostgresLine, engine: Engine
) -> None:
    submitting: set[Talk] = set()
    line.before(b'"groups"', submitting.add)
    line.after(b"COMMIT", lambda talk: talk.cut() if talk in submitting else None)
    key = str(uuid.uuid4())
    assert_refused(submit(api, key))
    line.heal()
    assert count(engine, "groups") == 1, "it is there"
    again = submit(api, key)
    assert again.status_code in (200, 201)
    assert count(engine, "groups") == 1


# ------------------------------------------------------------ no room
def fail_at_commit(engine: Engine, code: str) -> None:
    """From now on a COMMIT that adds a group fails with this error code."""
    with engine.begin() as conn:
        conn.execute(
            text(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" RAISE EXCEPTION 'could not extend file' USING ERRCODE = '{code}'; END $$"
            )
        )
        conn.execute(
            text(
                "CREATE CONSTRAINT TRIGGER full_disk AFTER INSERT ON groups DEFERRABLE INITIALLY DEFERRED"
                " FOR EACH ROW EXECUTE FUNCTION full_disk()"
            )
        )


@pytest.mark.parametrize("code", ["disk_full", "io_error", "out_of_memory"])
def test_a_commit_for_which_there_is_no_room_is_503_and_leaves_nothing(
    api: httpx.Client, engine: Engine, served: Served, code: str
) -> None:
    fail_at_commit(engine, code)
    key = str(uuid.uuid4())
    batch = {"groups": [GROUP, GROUP]}
    detail = assert_refused(submit(api, key))
    if code == "disk_full":
        assert "room" in detail
    assert_refused(api.post("/v1/groups/batch", json=batch))
    for table in ("groups", "units", "events", "idempotency_keys"):
        assert count(engine, table) == 0, table
    assert api.get("/readyz").status_code == 200, "it still reads"
    with engine.begin() as conn:
        conn.execute(text("DROP TRIGGER full_disk ON groups"))
    assert submit(api, key).status_code == 201
    assert count(engine, "groups") == 1
    assert not served.lines_of("unhandled_error")


# ------------------------------------------------------------ nobody is free
def test_a_pool_that_is_used_up_refuses_in_time_and_answers_probes(
    api: httpx.Client, engine: Engine, served: Served
) -> None:
    """Every connection waits for a lock that somebody holds, and four times as many requests wait for one."""
    assert submit(api, str(uuid.uuid4())).status_code == 201
    with engine.connect() as blocker, ThreadPoolExecutor(80) as callers:
        transaction = blocker.begin()
        blocker.execute(text("LOCK TABLE groups IN ACCESS EXCLUSIVE MODE"))
        asked = [callers.submit(timed, api, number) for number in range(64)]
        wait_until(lambda: waiting(blocker) >= 10, seconds=10)
        for _ in range(5):
            for path, seconds in (("/healthz", 1.0), ("/readyz", 2.5)):
                began_at = time.monotonic()
                assert api.get(path).status_code == 200
                assert time.monotonic() - began_at < seconds, path
        for each in asked:
            answer, seconds = each.result()
            assert_refused(answer)
            assert seconds < ANSWER_SECONDS
        transaction.rollback()
    began_at = time.monotonic()
    assert submit(api, str(uuid.uuid4())).status_code == 201
    assert time.monotonic() - began_at < 2
    assert not served.lines_of("unhandled_error")


def timed(api: httpx.Client, number: int) -> tuple[httpx.Response, float]:
    began_at = time.monotonic()
    answer = submit(api, str(number)) if number % 2 else api.get("/v1/groups")
    return answer, time.monotonic() - began_at


def waiting(conn: Connection) -> int:
    # A transaction sees the list of backends as it was at its first look.
    conn.execute(text("SELECT pg_stat_clear_snapshot()"))
    return int(
        conn.execute(
            text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        ).scalar_one()
    )
