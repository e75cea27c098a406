"""Claims as readers ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from service.domain.claim import ClaimCause


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupClaim:
    """The claim of a group that waits, of an independent group that of its first member with one. `gpus`:
    what it names, free or not."""

    cause: ClaimCause
    made_at: datetime
    due_at: datetime | None
    redated: int
    gpus: int


def find_claim(conn: Connection, group_id: int) -> GroupClaim | None:
    row = conn.execute(
        text(
            "SELECT c.cause, c.made_at, c.due_at, c.redated, (SELECT"
            " coalesce(sum(jsonb_array_length(place -> 3)), 0) FROM jsonb_array_elements(c.places) AS place"
            ") AS gpus FROM units u JOIN claims c ON c.unit_id = u.id"
            " WHERE u.group_id = :group_id AND u.ended_at IS NULL AND u.status = 'Pending'"
            " ORDER BY u.first_index LIMIT 1"
        ),
        {"group_id": group_id},
    ).one_or_none()
    if row is None:
        return None
    return GroupClaim(**(row._asdict() | {"cause": ClaimCause(row.cause), "gpus": int(row.gpus)}))
