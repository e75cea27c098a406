"""Use that is over and counts yet, as values of a World: what the ledger has, and what it has not yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, text

from service.admission.past_use import Charge
from service.store.charges import charges_of, decayed, seconds_between

#: By unit and attempt.
Charges = dict[tuple[int, int], tuple[Charge, ...]]

_H = "CAST(:half_life AS float8)"
_NOTED = charges_of("SELECT unit_id, attempt FROM uncharged_attempts", half_life=_H)
_LEFT = decayed("p.decayed_seconds", seconds_between("p.ended_at", "p.as_of"), half_life=_H)
_ALL = text(f"""
WITH parts AS MATERIALIZED (
  SELECT queue_id, resource, decayed_seconds, as_of AS ended_at FROM usage WHERE decayed_seconds > 0
  UNION ALL
  SELECT queue_id, resource, decayed_seconds, ended_at FROM ({_NOTED}) noted WHERE decayed_seconds > 0
)
SELECT p.queue_id, p.resource, sum({_LEFT}) AS amount_seconds, p.as_of
FROM (SELECT *, max(ended_at) OVER (PARTITION BY queue_id, resource) AS as_of FROM parts) p
GROUP BY p.queue_id, p.resource, p.as_of ORDER BY p.queue_id, p.resource
""")  # noqa: S608


def read_past_use(conn: Connection, half_life_seconds: float) -> tuple[Charge, ...]:
    """All that counts, in one snapshot of the ledger and of what is not in it yet."""
    rows = conn.execute(_ALL, {"half_life": half_life_seconds})
    return tuple(Charge(**row._mapping) for row in rows)


def charges_statement(units: str, half_life: str) -> str:
    """What closed attempts of `units` count at their ends, whether the ledger has them yet or not. Both are
    expressions: an array, and seconds."""
    attempts = f"SELECT unit_id, attempt FROM closed_attempts WHERE unit_id = ANY({units})"  # noqa: S608
    return (
        "SELECT unit_id, attempt, queue_id, resource, decayed_seconds, ended_at"  # noqa: S608
        f" FROM ({charges_of(attempts, half_life=half_life)}) charges WHERE decayed_seconds > 0"
        " ORDER BY unit_id, attempt, resource"
    )


def charges_by_attempt(rows: Iterable[tuple[Any, ...]]) -> Charges:
    """Of rows of `charges_statement`."""
    found: dict[tuple[int, int], list[Charge]] = {}
    for unit_id, attempt, queue_id, resource, amount_seconds, ended_at in rows:
        charge = Charge(queue_id=queue_id, resource=resource, amount_seconds=amount_seconds, as_of=ended_at)
        found.setdefault((unit_id, attempt), []).append(charge)
    return {key: tuple(charges) for key, charges in found.items()}
