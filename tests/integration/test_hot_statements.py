"""The statements of feed, commit, observe and submit cost what they touch, however long the past is.

Each is explained where the product runs it: on its connection, in its transaction, with its values;
and once more with a plan for any values, which PostgreSQL may prefer after some executions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import text

from bench.history import HOT, Side, Times
from bench.past import add_past, settle
from service.store.models import metadata

ENDED = 20_000
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
EXPLAINED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
PLACEHOLDER = re.compile(r"%\((\w+)\)s(::\w+)?|%%")

Plan = dict[str, Any]


@dataclass(frozen=True)
class Explained:
    step: str
    statement: str
    plan: Plan


class Steps(Times):
    """Notes which step of a round is under way."""

    step: str | None = None

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        self.step = name
        with super().of(name):
            yield
        self.step = None


def explain(cursor: Any, statement: str, parameters: Any) -> Plan:
    """As it is carried out now."""
    cursor.execute("EXPLAIN (FORMAT JSON) " + statement, parameters)
    plan: Plan = cursor.fetchone()[0][0]["Plan"]
    return plan


def explain_for_any_values(cursor: Any, statement: str) -> Plan:
    numbers: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        return f"${numbers.setdefault(found[1], len(numbers) + 1)}{found[2] or ''}"

    cursor.execute(
        "EXPLAIN (FORMAT JSON, GENERIC_PLAN) " + PLACEHOLDER.sub(numbered, statement), prepare=False
    )
    plan: Plan = cursor.fetchone()[0][0]["Plan"]
    return plan


class Explaining:
    """Every statement that goes to any engine during a step, explained just before it is carried out:
    also those that go straight to the driver."""

    def __init__(self, steps: Steps) -> None:
        self.found: list[Explained] = []
        self.is_on = False
        self.steps = steps

    def note(self, cursor: psycopg.Cursor[Any], query: Any, parameters: Any) -> None:
        statement = query.decode() if isinstance(query, bytes) else query
        step = self.steps.step
        if not self.is_on or step is None or not EXPLAINED.match(statement):
            return
        self.is_on = False
        # Its own kind of cursor knows its own placeholders.
        with type(cursor)(cursor.connection) as other:
            plans = [explain(other, statement, parameters)]
        # On a connection that prepares nothing each statement is planned with its values.
        if cursor.connection.prepare_threshold is not None:
            # A connection of the same settings: a pipeline would ask for the values.
            with psycopg.connect(make_conninfo(**cursor.connection.info.get_parameters())) as another:
                plans.append(explain_for_any_values(another.cursor(), statement))
        self.found.extend(Explained(step, statement, plan) for plan in plans)
        self.is_on = True


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
def explaining(monkeypatch: pytest.MonkeyPatch) -> Explaining:
    noting, execute = Explaining(Steps()), psycopg.Cursor.execute

    def explain_and_execute(self: psycopg.Cursor[Any], query: Any, params: Any = None, **options: Any) -> Any:
        noting.note(self, query, params)
        return execute(self, query, params, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", explain_and_execute)
    return noting


@pytest.fixture
def make_side(
    empty_database_url: str, redis_url: str, tmp_path: Path, explaining: Explaining
) -> Iterator[Callable[[], Side]]:
    with ExitStack() as close:
        yield lambda: Side(
            empty_database_url, redis_url, folder=tmp_path, close=close, times=explaining.steps, count=2
        )


@pytest.mark.parametrize("knows", ["the long past", "a time when all was new"])
def test_no_hot_statement_reads_the_past(
    make_side: Callable[[], Side], explaining: Explaining, knows: str
) -> None:
    """With statistics that are right, and with those of a database that had nothing in it."""
    side = make_side()
    if knows != "the long past":
        settle(side.engine)
        with side.engine.begin() as conn:
            for table in LONG:
                conn.execute(text(f"ALTER TABLE {table} SET (autovacuum_enabled = off)"))
    add_past(side.engine, ENDED, settles=knows == "the long past")
    side.round(4)
    explaining.is_on = True
    side.round(4)
    explaining.is_on = False
    found = explaining.found
    assert {each.step for each in found} == set(HOT)
    assert len({each.statement for each in found}) > 15
    growing = {
        f"{each.step}: {growing} in {' '.join(each.statement.split())}"
        for each in found
        if (growing := grows_with_the_past(each.plan))
    }
    assert growing == set()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM events WHERE kind = 'Admitted'",
        "SELECT id FROM groups ORDER BY id",
        "SELECT unit_id FROM closed_attempts",
    ],
)
def test_what_reads_the_past_is_found(make_side: Callable[[], Side], statement: str) -> None:
    side = make_side()
    add_past(side.engine, 1_000)
    with side.engine.connect() as conn:
        cursor = conn.connection.cursor()
        for is_on in ("on", "off"):
            cursor.execute(f"SET enable_seqscan = {is_on}")
            assert grows_with_the_past(explain(cursor, statement, ())) != []
