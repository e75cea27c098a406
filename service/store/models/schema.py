"""The schema that all tables belong to, and how their columns and constraints are written."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import Column, DateTime, MetaData
from sqlalchemy.types import UserDefinedType

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class TransactionId(UserDefinedType[str]):
    """PostgreSQL's xid8: a transaction id that never wraps."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "XID8"


def instant(name: str, *, nullable: bool = True) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


def one_of(column: str, values: type[StrEnum]) -> str:
    """The condition that a column holds a word of this list."""
    return f"{column} IN ({', '.join(repr(value.value) for value in values)})"


#: Of tables whose rows change often: half of each page is left to updates, which then touch no index.
HOT: dict[str, Any] = {"postgresql_with": {"fillfactor": "50"}}
