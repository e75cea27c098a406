"""The hot statements over a database with a long past, beside a fresh one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, text

from bench.history.past import EVENTS, add_past, settle
from bench.history.side import GPUS, HOT, NODES, WARM_UP_ROUNDS, Looks, Side, Times
from bench.profiling import (
    Statement,
    create_statements,
    have_statements_counted,
    read_statements,
    short_statement,
)
from bench.results import Figure, Result, milliseconds, quantile
from bench.servers import both_stores, require_fsync, short_folder
from service.store.engine import make_engine

#: What autovacuum would have done is done after so many rounds.
_ROUNDS_TO_SETTLE = 10
#: Rounds of their own in which it is looked where the time goes.
_PROFILED_ROUNDS = 10
_FUNCTIONS, _STATEMENTS = 4, 10
_MOST = 1.5

_LIMIT = (
    "No hot statement reads what has ended: each finds its rows through a partial index of what is alive, or"
    " behind a bound that moves with the feed (a test compares their plans). What grows with the past are"
    " the indexes that a new row enters, one or two pages deeper in a million groups, and the pages of the"
    " tables' ends. What is left is the same on both sides: some round trips for each step, the fsync of each"
    " commit, and the rows of 200 groups made and read in Python."
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """`ended` groups with five events each in the past; so many `rounds` of a full cluster of groups."""

    ended: int = 1_000_000
    rounds: int = 40
    singles: int = 20


def run(scale: float) -> Result:
    """On servers of its own."""
    size = Size(ended=max(1_000, round(1_000_000 * scale)), rounds=max(10, round(40 * scale)))
    with short_folder() as folder:
        have_statements_counted(folder, track="none")
        with both_stores(folder) as (database_url, redis_url):
            return measure(database_url, redis_url, folder, size=size)


def measure(
    database_url: str, redis_url: str, folder: Path, *, size: Size, is_durable: bool = True
) -> Result:
    """On a server with an empty database, beside which it makes another, and an empty Redis. Statements are
    counted if the server has the library for that."""
    with ExitStack() as close:
        other_url = close.enter_context(_another_database(database_url))
        fresh_times, filled_times = Times(), Times()
        fresh = Side(database_url, redis_url, folder=folder, close=close, times=fresh_times)
        redis_filled = f"{redis_url.partition('?')[0]}?db=1"
        filled = Side(other_url, redis_filled, folder=folder, close=close, times=filled_times)
        if is_durable:
            require_fsync(fresh.engine)
        began_at = time.monotonic()
        add_past(filled.engine, size.ended)
        filled_seconds = time.monotonic() - began_at
        # 1. Measure.
        _rounds(fresh, filled, size, count=size.rounds + WARM_UP_ROUNDS)
        # 2. Look where the time goes.
        looks = Looks()
        fresh.times, filled.times = Looks(), looks
        with _counted(fresh.engine, filled.engine) as statements:
            _rounds(fresh, filled, size, count=min(size.rounds, _PROFILED_ROUNDS))
    return _result(
        size,
        fresh_times,
        filled_times,
        filled_seconds,
        profile=[*_function_parts(looks), *_statement_parts(*statements)],
    )


def _rounds(fresh: Side, filled: Side, size: Size, *, count: int) -> None:
    """In turns, so that what else the machine does falls on both."""
    for number in range(count):
        if number % _ROUNDS_TO_SETTLE == 0:
            settle(fresh.engine)
            settle(filled.engine)
        for side in (fresh, filled) if number % 2 else (filled, fresh):
            side.round(size.singles)


@contextmanager
def _counted(*engines: Engine) -> Iterator[list[list[Statement]]]:
    """The statements of the databases of one server, filled at the end; none where they cannot be counted."""
    found: list[list[Statement]] = [[] for _ in engines]
    with engines[0].connect() as conn:
        libraries = conn.exec_driver_sql("SHOW shared_preload_libraries").scalar_one()
    if "pg_stat_statements" not in libraries:
        yield found
        return
    for engine in engines:
        create_statements(engine)
    _track(engines[0], "top")
    yield found
    _track(engines[0], "none")
    found[:] = [read_statements(engine) for engine in engines]


def _track(engine: Engine, which: str) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.exec_driver_sql(f"ALTER SYSTEM SET pg_stat_statements.track = '{which}'")
        conn.exec_driver_sql("SELECT pg_reload_conf()")


@contextmanager
def _another_database(database_url: str) -> Iterator[str]:
    """The URL of a database of its own on the same server, gone afterwards."""
    engine = make_engine(database_url)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text("CREATE DATABASE bench_filled TEMPLATE template0"))
            yield engine.url.set(database="bench_filled").render_as_string(hide_password=False)
            conn.execute(text("DROP DATABASE bench_filled WITH (FORCE)"))
    finally:
        engine.dispose()


def _ratio(longs: Sequence[float], shorts: Sequence[float]) -> float:
    """The median of the ratios of rounds that followed each other: what else the machine did was the same."""
    return quantile((one / other for one, other in zip(longs, shorts, strict=True)), 0.5)


def _function_parts(looks: Looks) -> list[Figure]:
    """Of the side with the long past."""
    return [part for name, each in looks.functions.items() for part in each.parts(name, shown=_FUNCTIONS)]


def _statement_parts(fresh: Sequence[Statement], filled: Sequence[Statement]) -> Iterator[Figure]:
    """The longest of the side with the long past, with what they take on the other."""
    found, beside = _by_text(filled), _by_text(fresh)
    total = sum(sum_ms for _, _, sum_ms in filled)
    for key in sorted(found, key=lambda key: -found[key][2])[:_STATEMENTS]:
        query, _, sum_ms = found[key]
        fresh_too = f", {_micros_each(beside[key])} in the fresh one" if key in beside else ""
        yield Figure(
            name=f"postgres: {short_statement(query)}, {_micros_each(found[key])} each{fresh_too}",
            value=round(100 * sum_ms / total, 1),
            unit="% of its statements",
        )


def _by_text(statements: Sequence[Statement]) -> dict[str, Statement]:
    """Summed up by their text without values: PostgreSQL has put parameters for some of them, or not."""
    found: dict[str, Statement] = {}
    for query, calls, sum_ms in statements:
        key = re.sub(r"'[^']*'|\$?\d+|\btrue\b|\bfalse\b", "?", query)
        _, calls_before, ms_before = found.get(key, (query, 0, 0.0))
        found[key] = query, calls_before + calls, ms_before + sum_ms
    return found


def _micros_each(statement: Statement) -> str:
    _, calls, sum_ms = statement
    return f"{1000 * sum_ms / calls:.0f} µs"


def _result(
    size: Size, fresh: Times, filled: Times, filled_seconds: float, *, profile: Sequence[Figure]
) -> Result:
    each = NODES * GPUS
    return Result(
        name="history",
        title="A long past",
        reading=(
            f"Two databases on one server: a fresh one, and one with {size.ended} ended groups and"
            f" {EVENTS * size.ended} events. In each round both see {each} groups from submission to end, in"
            f" turns: {size.singles} are submitted one by one and the rest as a batch, the leader reads what"
            " changed (feed), admits all of them (commit), and the dispatcher claims, launches and records"
            " their start and their end (observe). The ratio is the median of the ratios of rounds that"
            " followed each other. Both are vacuumed and analyzed now and then, as autovacuum would. Shares"
            " are of further rounds over the long past: by function of what each spends itself in a step, and"
            " by statement of what PostgreSQL spends, beside its time in the fresh database."
        ),
        parameters={
            "ended_groups": size.ended,
            "events": EVENTS * size.ended,
            "rounds": size.rounds,
            "groups_per_round": each,
            "seconds_to_fill": round(filled_seconds, 1),
        },
        figures=[
            Figure(
                name=f"{name}, long past to fresh",
                value=round(_ratio(filled.counted(name), fresh.counted(name)), 2),
                unit="ratio",
                at_most=_MOST,
            )
            for name in HOT
        ],
        parts=[
            *(
                milliseconds(f"{name}, {label}", times.median(name))
                for name in HOT
                for label, times in (("fresh", fresh), ("long past", filled))
            ),
            *profile,
        ],
        limit=_LIMIT,
    )
