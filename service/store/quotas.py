"""Rows of quotas: one for each resource that is named, with a column for each kind of bound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row


def quota_amounts(rows: Iterable[Row[*tuple[Any, ...]]], column: str) -> dict[str, int]:
    """One column by resource, of those that say something."""
    return {row.resource: amount for row in rows if (amount := getattr(row, column)) is not None}
