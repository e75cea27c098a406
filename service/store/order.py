"""The order of a queue in SQL, where `q` is the queue of the group."""

from __future__ import annotations


def length_of(group: str) -> str:
    """What comes between priority and age, of `g` or another name of groups in a query: the time limit where
    the queue has the shortest first."""
    return (
        "CASE WHEN q.policy ->> 'order_by' = 'shortest'"
        f" THEN COALESCE({group}.time_limit_seconds, 'Infinity'::float8) ELSE 0 END"
    )
