"""Transactions that begin in the same round trip as their first statement.

psycopg begins them by itself, and waits for the answer, also in a pipeline. In autocommit it leaves BEGIN
to its caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection

from service.store.driver import driver_of


@contextmanager
def own_begin(conn: Connection) -> Iterator[psycopg.Connection[Any]]:
    """The driver's connection, outside of any transaction: the caller says BEGIN, and ends what it began
    before the end of this. What an error leaves open is rolled back."""
    driver = driver_of(conn)
    driver.autocommit = True
    try:
        yield driver
    finally:
        status = driver.info.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            driver.rollback()
        if not driver.closed:
            driver.autocommit = False
