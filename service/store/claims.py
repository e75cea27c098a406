"""Claims as they are stored: read with the World, written with what a cycle decided (L2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import psycopg
from sqlalchemy import Connection, text

from service.domain.claim import Claim, ClaimCause
from service.store.arrays import number_array, text_array
from service.store.places import pack_places, places_of

#: A claim ends with the start of its unit only if that came to be: by row a unit that the plan admits from
#: it. Of who ended meanwhile the next cycle ends it, and says what others gave way for.
_END = """
DELETE FROM claims c
WHERE c.unit_id = ANY(%(ended)s::bigint[]) AND NOT EXISTS (
  SELECT FROM unnest(%(rows)s::bigint[], %(starting)s::bigint[]) AS s (row_id, unit_id)
  WHERE s.row_id = c.unit_id AND NOT EXISTS (
    SELECT FROM attempts a WHERE a.unit_id = s.unit_id AND a.admitted_at = %(now)s::timestamptz))
"""
_MAKE = """
INSERT INTO claims (unit_id, cause, made_at, due_at, places, redated)
SELECT c.*
FROM unnest(%(ids)s::bigint[], %(causes)s::text[], %(made)s::timestamptz[], %(due)s::timestamptz[],
            %(places)s::jsonb[], %(redated)s::int[]) AS c (unit_id, cause, made_at, due_at, places, redated)
JOIN units u ON u.id = c.unit_id
ON CONFLICT (unit_id) DO UPDATE SET cause = excluded.cause, made_at = excluded.made_at,
  due_at = excluded.due_at, places = excluded.places, redated = excluded.redated
"""


def read_claims(conn: Connection) -> dict[int, Claim]:
    """Every claim, by the row that waits."""
    rows = conn.execute(text("SELECT unit_id, cause, made_at, due_at, places, redated FROM claims"))
    return {
        row.unit_id: Claim(
            unit_id=row.unit_id,
            cause=ClaimCause(row.cause),
            made_at=row.made_at,
            due_at=row.due_at,
            places=places_of(row.places),
            redated=row.redated,
        )
        for row in rows
    }


def write_claims(
    driver: psycopg.Connection[Any],
    *,
    made: Sequence[Claim],
    ended: Collection[int],
    starting: Mapping[int, int],
    now: datetime,
) -> None:
    """In the transaction, and the pipeline, of a cycle whose admissions are written already. `starting`: by
    row a unit that the plan admits from it."""
    if ended:
        driver.execute(
            _END,
            {
                "ended": number_array(sorted(ended)),
                "rows": number_array(starting),
                "starting": number_array(starting.values()),
                "now": now,
            },
        )
    if made:
        rows = sorted(made, key=lambda claim: claim.unit_id)
        driver.execute(
            _MAKE,
            {
                "ids": number_array(claim.unit_id for claim in rows),
                "causes": text_array(claim.cause for claim in rows),
                "made": [claim.made_at for claim in rows],
                "due": [claim.due_at for claim in rows],
                "places": text_array(
                    msgspec.json.encode(pack_places(claim.places)).decode() for claim in rows
                ),
                "redated": number_array(claim.redated for claim in rows),
            },
        )
