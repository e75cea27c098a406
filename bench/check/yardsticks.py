"""What gauges are measured in: work of the kinds that the product does, which no change of it touches."""

from __future__ import annotations

import gc
import json
import os
import random
import time
from bisect import insort

import redis
from sqlalchemy import Engine, text

from bench.cpu import cpu_of

_TABLE = (
    "CREATE TABLE IF NOT EXISTS bench_yardstick (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " kind bigint NOT NULL, body jsonb NOT NULL)"
)
_INDEX = "CREATE INDEX IF NOT EXISTS bench_yardstick_kind ON bench_yardstick (kind)"
_ONE = text("INSERT INTO bench_yardstick (kind, body) VALUES (:kind, CAST(:body AS jsonb))")
_MANY = text(
    "INSERT INTO bench_yardstick (kind, body) SELECT n, CAST(:body AS jsonb)"
    " FROM generate_series(1, CAST(:count AS bigint)) n"
)
_READ = text("SELECT id, kind, body FROM bench_yardstick ORDER BY id LIMIT :count")
_ROWS = 1000


class _Row:
    __slots__ = ("kind", "number", "places")

    def __init__(self, number: int) -> None:
        self.number = number
        self.kind = number % 97
        self.places: dict[int, int] = {}


def python_work(items: int = 18_000) -> None:
    """As planning does: small objects, dictionaries, sorting, and ordered lists that are kept in order."""
    chosen = random.Random(1)
    rows = [_Row(chosen.randrange(1_000_000)) for _ in range(items)]
    by_kind: dict[int, list[_Row]] = {}
    for row in sorted(rows, key=lambda row: (row.kind, row.number)):
        by_kind.setdefault(row.kind, []).append(row)
    free: list[tuple[int, int]] = []
    for kind, members in by_kind.items():
        for place, row in enumerate(members):
            row.places[place] = row.places.get(place - 1, 0) + kind
            if place % 4 == 0:
                insort(free, (row.number % 512, place))


def python_seconds(times: int = 1) -> float:
    """CPU seconds of `python_work` in this thread, so many times."""
    gc.disable()
    try:
        began_at = time.thread_time()
        for _ in range(times):
            python_work()
        return time.thread_time() - began_at
    finally:
        gc.enable()


class StoreWork:
    """A mixture of Python's work, commits and reads of PostgreSQL, and round trips of Redis."""

    def __init__(self, engine: Engine, client: redis.Redis) -> None:
        self._engine, self._client = engine, client
        self._body = json.dumps({"name": "bench", "roles": [{"count": 1, "gpus": 8}], "note": "x" * 100})
        with engine.begin() as conn:
            conn.execute(text(_TABLE))
            conn.execute(text(_INDEX))
        self._write(_ROWS)

    def seconds(self, *, items: int, commits: int, rows: int, trips: int) -> float:
        """CPU seconds, of this process and of the stores that are its children, of that much: `items` of
        Python's work, `commits` of a row each and one of `rows`, which are read again, and `trips` of Redis
        with a hundred commands each."""
        return cpu_of(lambda: self._work(items=items, commits=commits, rows=rows, trips=trips), [os.getpid()])

    def _work(self, *, items: int, commits: int, rows: int, trips: int) -> None:
        python_work(items)
        for number in range(commits):
            with self._engine.begin() as conn:
                conn.execute(_ONE, {"kind": number, "body": self._body})
        self._write(rows)
        with self._engine.connect() as conn:
            conn.execute(_READ, {"count": rows}).all()
        for _ in range(trips):
            with self._client.pipeline(transaction=False) as pipe:
                for number in range(100):
                    pipe.hincrby(f"bench:yardstick:{number}", "held", 1)
                pipe.execute()

    def _write(self, rows: int) -> None:
        with self._engine.begin() as conn:
            conn.execute(_MANY, {"count": rows, "body": self._body})
