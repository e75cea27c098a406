"""The driver's own connection, for what SQLAlchemy has no words for: COPY, pipelines, autocommit."""

from __future__ import annotations

from typing import Any, cast

import psycopg
from sqlalchemy import Connection


def driver_of(conn: Connection) -> psycopg.Connection[Any]:
    """Also of a detached connection, which has no record of the pool."""
    return cast("psycopg.Connection[Any]", conn.connection.dbapi_connection)
