"""Claims as they are stored: read with the World, written with what a cycle decided (L2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import psycopg
from sqlalchemy import Connection, text

from service.domain.claim import Claim, ClaimCause
from service.store.admit import WaitingRow
from service.store.arrays import number_array, text_array
from service.store.places import pack_places, places_of

#: A claim ends with the start of its unit only if that came to be: `leaving` are the rows that the plan
#: admits from, and what it leaves of them.
_END = """
DELETE FROM claims c USING units u
LEFT JOIN unnest(%(leaving)s::bigint[], %(first_indexes)s::int[], %(used_up)s::boolean[])
  AS l (id, first_index, is_used_up) ON l.id = u.id
WHERE c.unit_id = ANY(%(ended)s::bigint[]) AND u.id = c.unit_id
  AND (l.id IS NULL OR u.status <> 'Pending' OR (NOT l.is_used_up AND u.first_index >= l.first_index))
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
    leaving: Sequence[WaitingRow],
) -> None:
    """In the transaction, and the pipeline, of a cycle whose admissions are written already."""
    if ended:
        driver.execute(
            _END,
            {
                "ended": number_array(sorted(ended)),
                "leaving": number_array(row.id for row in leaving),
                "first_indexes": number_array(row.first_index for row in leaving),
                "used_up": text_array("t" if row.is_used_up else "f" for row in leaving),
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
