"""The statements of feed, commit, observe and submit cost what they touch, however long the past is.

PostgreSQL itself tells the plan of everything that it carries out (auto_explain), whoever asked for it and
in whatever way, also for what foreign keys check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from sqlalchemy import create_engine, make_url, text

from bench.history.past import add_past, settle
from bench.history.side import HOT, Side, Times
from service.store.engine import make_direct_engine
from service.store.models import metadata
from tests.servers import Databases

ENDED = 20_000
#: After so many PostgreSQL may prefer a plan for any values to one for those that it is given.
ROUNDS = 7
#: Tables that keep a row for what has ended.
LONG = {"groups", "group_specs", "units", "events", "closed_attempts", "member_ends", "idempotency_keys"}
#: All that has rows of them but the index of what waits or lives.
LONG_INDEXES = {index.name for name in LONG for index in metadata.tables[name].indexes} | {
    constraint.name
    for name in LONG
    for constraint in metadata.tables[name].constraints
    if constraint.name is not None
}
LONG_INDEXES.remove("ix_units_unended")
#: Each plan stands in the log behind its time, on lines that begin with a tab.
TOLD = re.compile(r"plan:\n((?:\t.*\n)+)")
EXPLAINING = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_format": "json",
    "auto_explain.log_nested_statements": "on",
}

Plan = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class ExplainedTimes(Times):
    """What PostgreSQL writes into its log during each step."""

    log: Path
    plans: dict[str, list[Plan]] = field(default_factory=dict)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        before = self.log.stat().st_size
        with Times.of(self, name):
            yield
        with self.log.open("rb") as log:
            log.seek(before)
            told = log.read().decode()
        self.plans.setdefault(name, []).extend(json.loads(each[1]) for each in TOLD.finditer(told))


def parts(plan: Plan) -> Iterator[Plan]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from parts(each)


def grows_with_the_past(plan: Plan) -> list[str]:
    """Parts that would read a table, or an index, of what has ended from one end to the other."""
    return [
        f"{part['Node Type']} on {part.get('Relation Name', part.get('Index Name'))}"
        for part in parts(plan)
        if (part["Node Type"] == "Seq Scan" and part["Relation Name"] in LONG)
        or ("Index Name" in part and part["Index Name"] in LONG_INDEXES and "Index Cond" not in part)
    ]


@pytest.fixture
def make_side(
    empty_database_url: str, redis_url: str, tmp_path: Path, databases: Databases
) -> Iterator[Callable[..., Side]]:
    """A side on a database with these settings."""
    with ExitStack() as close:

        def make(**settings: str) -> Side:
            set_for_new_connections(empty_database_url, EXPLAINING | settings)
            times = ExplainedTimes(log=databases.server.log)
            return Side(empty_database_url, redis_url, folder=tmp_path, close=close, times=times, count=2)

        yield make


def set_for_new_connections(url: str, settings: dict[str, str]) -> None:
    engine = create_engine(url)
    with engine.begin() as conn:
        for name, value in settings.items():
            conn.execute(text(f"ALTER DATABASE {make_url(url).database} SET {name} = '{value}'"))
    engine.dispose()


@pytest.mark.parametrize("plans", ["auto", "force_generic_plan"])
@pytest.mark.parametrize("knows", ["the long past", "a time when all was new"])
def test_no_hot_statement_reads_the_past(make_side: Callable[..., Side], knows: str, plans: str) -> None:
    """With statistics that are right and with those of a database that had nothing in it; with the plans
    that PostgreSQL prefers and with those for any values."""
    side = make_side(plan_cache_mode=plans)
    if knows != "the long past":
        settle(side.engine)
        with side.engine.begin() as conn:
            for table in LONG:
                conn.execute(text(f"ALTER TABLE {table} SET (autovacuum_enabled = off)"))
    add_past(side.engine, ENDED, settles=knows == "the long past")
    for _ in range(ROUNDS):
        side.round(4)
    told = side.times
    assert isinstance(told, ExplainedTimes)
    statements = {step: {each["Query Text"] for each in found} for step, found in told.plans.items()}
    # What each step is about is among it.
    assert statements.keys() == set(HOT)
    assert any("pg_current_snapshot" in each for each in statements["feed"])
    assert any("INSERT INTO held_devices" in each for each in statements["commit"])
    assert any("closed_attempts" in each for each in statements["observe"])
    assert any("nextval" in each for each in statements["submit"])
    if plans == "force_generic_plan":
        # The leader never prepares, so that its statements are always planned with their values.
        del told.plans["feed"]
    growing = {
        f"{step}: {growing} in {' '.join(each['Query Text'].split())}"
        for step, found in told.plans.items()
        for each in found
        if (growing := grows_with_the_past(each["Plan"]))
    }
    assert growing == set()


def test_the_leader_prepares_nothing(database_url: str) -> None:
    engine = make_direct_engine(database_url)
    with engine.connect() as conn:
        driver = cast("psycopg.Connection", conn.connection.dbapi_connection)
        assert driver.prepare_threshold is None
    engine.dispose()


def explain(cursor: Any, statement: str, parameters: Any) -> Plan:
    """As it would be carried out now."""
    cursor.execute("EXPLAIN (FORMAT JSON) " + statement, parameters)
    plan: Plan = cursor.fetchone()[0][0]["Plan"]
    return plan


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM events WHERE kind = 'Admitted'",
        "SELECT id FROM groups ORDER BY id",
        "SELECT unit_id FROM closed_attempts",
    ],
)
def test_what_reads_the_past_is_found(make_side: Callable[..., Side], statement: str) -> None:
    side = make_side()
    add_past(side.engine, 1_000)
    with side.engine.connect() as conn:
        cursor = conn.connection.cursor()
        for is_on in ("on", "off"):
            cursor.execute(f"SET enable_seqscan = {is_on}")
            assert grows_with_the_past(explain(cursor, statement, ())) != []
