"""Receipts of preemptions for readers, the newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Row, text


class ReceiptKey(NamedTuple):
    """Where a page ended."""

    decided_at: datetime
    unit_id: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRow:
    """One attempt that gave way; `members` None: all of it, else so many of them. `claimant_group` None: that
    group was dropped. `victim_owner` and `claimant_owner`: tenant and user. A queue without a tenant is
    everybody's."""

    key: ReceiptKey
    members: int | None
    victim_group: UUID
    victim_owner: tuple[str, str]
    victim_queue: str
    victim_queue_tenant: str | None
    claimant_group: UUID | None
    claimant_owner: tuple[str, str] | None
    claimant_queue: str
    claimant_queue_tenant: str | None
    entitlement: str
    claimant_share_before: float
    victim_share_before: float
    claimant_share_after: float
    victim_share_after: float
    lost_gpu_seconds: float
    outcome: str | None
    outcome_at: datetime | None
    outcome_cause: str | None


_LIST = """
SELECT p.decided_at, p.unit_id, p.attempt, p.members, v.public_id AS victim_group, v.tenant AS victim_tenant,
  v.owner AS victim_owner, vq.name AS victim_queue, vq.tenant AS victim_queue_tenant,
  c.public_id AS claimant_group,
  c.tenant AS claimant_tenant, c.owner AS claimant_owner, cq.name AS claimant_queue,
  cq.tenant AS claimant_queue_tenant, p.entitlement,
  p.claimant_share_before, p.victim_share_before, p.claimant_share_after, p.victim_share_after,
  p.lost_gpu_seconds, p.outcome, p.outcome_at, p.outcome_cause
FROM preemptions p JOIN groups v ON v.id = p.group_id JOIN queues vq ON vq.id = p.queue_id
LEFT JOIN groups c ON c.id = p.claimant_group_id JOIN queues cq ON cq.id = p.claimant_queue_id
WHERE (CAST(:group_id AS bigint) IS NULL OR p.group_id = :group_id OR p.claimant_group_id = :group_id)
  AND (CAST(:owner AS text) IS NULL OR (v.tenant = :tenant AND v.owner = :owner)
       OR (c.tenant = :tenant AND c.owner = :owner))
  AND (CAST(:at AS timestamptz) IS NULL OR (p.decided_at, p.unit_id, p.attempt) < (:at, :unit_id, :attempt))
ORDER BY p.decided_at DESC, p.unit_id DESC, p.attempt DESC LIMIT :limit
"""


def list_receipts(
    conn: Connection,
    *,
    group_id: int | None,
    owner: tuple[str, str] | None,
    after: ReceiptKey | None,
    limit: int,
) -> list[ReceiptRow]:
    """Of one group, on either side, or of all; of groups of `owner` (tenant, user) only, or of anybody."""
    tenant, user = owner or (None, None)
    at, unit_id, attempt = after or (None, None, None)
    rows = conn.execute(
        text(_LIST),
        {
            "group_id": group_id,
            "tenant": tenant,
            "owner": user,
            "at": at,
            "unit_id": unit_id,
            "attempt": attempt,
            "limit": limit,
        },
    )
    return [_receipt(row) for row in rows]


def list_victims_of(conn: Connection, group_id: int) -> tuple[str, ...]:
    """Public ids of groups that have given way to this one, which still waits for their places."""
    rows = conn.execute(
        text(
            "SELECT DISTINCT v.public_id::text FROM preemptions p JOIN groups v ON v.id = p.group_id"
            " WHERE p.claimant_group_id = :group_id AND p.outcome IS NULL ORDER BY 1"
        ),
        {"group_id": group_id},
    )
    return tuple(rows.scalars())


def _receipt(row: Row[Any]) -> ReceiptRow:
    has_claimant = row.claimant_group is not None
    return ReceiptRow(
        key=ReceiptKey(row.decided_at, row.unit_id, row.attempt),
        members=row.members,
        victim_group=row.victim_group,
        victim_owner=(row.victim_tenant, row.victim_owner),
        victim_queue=row.victim_queue,
        victim_queue_tenant=row.victim_queue_tenant,
        claimant_group=row.claimant_group,
        claimant_owner=(row.claimant_tenant, row.claimant_owner) if has_claimant else None,
        claimant_queue=row.claimant_queue,
        claimant_queue_tenant=row.claimant_queue_tenant,
        entitlement=row.entitlement,
        claimant_share_before=row.claimant_share_before,
        victim_share_before=row.victim_share_before,
        claimant_share_after=row.claimant_share_after,
        victim_share_after=row.victim_share_after,
        lost_gpu_seconds=row.lost_gpu_seconds,
        outcome=row.outcome,
        outcome_at=row.outcome_at,
        outcome_cause=row.outcome_cause,
    )
