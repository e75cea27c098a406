"""A verb's transaction is made again, whoever tells that the database ended it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Connection, Engine

from service.operations.transactions import in_transaction
from service.store.pipe import one_trip


def test_a_deadlock_that_the_driver_tells_of_is_made_again(engine: Engine) -> None:
    """W4: statements that are sent together raise the driver's own errors."""
    both_hold_one = threading.Barrier(2)

    def locks(first: int, second: int) -> int:
        tries = 0

        def work(conn: Connection) -> int:
            nonlocal tries
            tries += 1
            _lock(conn, first)
            if tries == 1:
                both_hold_one.wait(10)
            _lock(conn, second)
            return tries

        return in_transaction(engine, work)

    with ThreadPoolExecutor() as pool:
        tries = [pool.submit(locks, 1, 2), pool.submit(locks, 2, 1)]
        assert sorted(each.result(30) for each in tries) == [1, 2]


def _lock(conn: Connection, number: int) -> None:
    with one_trip(conn) as pipe:
        pipe.run(b"SELECT pg_advisory_xact_lock($1)", number)
