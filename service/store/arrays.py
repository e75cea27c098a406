"""Arrays as PostgreSQL reads them. Its driver would look at each value by itself, which for the columns
of a large statement takes longer than the statement."""

from __future__ import annotations

from collections.abc import Iterable


def number_array(values: Iterable[int]) -> str:
    """To be cast to bigint[] or int[]."""
    return "{" + ",".join(map(str, values)) + "}"


def text_array(values: Iterable[str]) -> str:
    """To be cast to an array of any type whose values are written as text."""
    return "{" + ",".join([_quoted(value) for value in values]) + "}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
