"""Receipts of preemptions for readers: an operator sees all, others those of their own groups."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Engine

from service.domain.principal import Principal
from service.operations.read_groups import reading
from service.store.group_reads import GroupRow, find_group
from service.store.preemption_reads import ReceiptKey, ReceiptRow, list_receipts


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """`victim` and `claimant` None: somebody else's group, or one that was dropped. Of their queues those
    of other tenants are None."""

    row: ReceiptRow
    victim: UUID | None
    victim_queue: str | None
    claimant: UUID | None
    claimant_queue: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptPage:
    receipts: tuple[Receipt, ...]
    next_key: ReceiptKey | None


def list_preemptions(
    engine: Engine, *, principal: Principal, group: UUID | None, after: ReceiptKey | None, limit: int
) -> ReceiptPage:
    """The newest first; of one group, on either side, or of all. Of one that this key may not see: none."""
    owner = None if principal.is_operator else (principal.tenant, principal.user)
    with reading(engine) as conn:
        found = None if group is None else find_group(conn, group)
        if group is not None and not _may_see(principal, found):
            return ReceiptPage(receipts=(), next_key=None)
        group_id = None if found is None else found.id
        rows = list_receipts(conn, group_id=group_id, owner=owner, after=after, limit=limit + 1)
    page = rows[:limit]
    return ReceiptPage(
        receipts=tuple(_as_seen_by(principal, row) for row in page),
        next_key=page[-1].key if len(rows) > limit else None,
    )


def _may_see(principal: Principal, group: GroupRow | None) -> bool:
    return group is not None and principal.may_see(tenant=group.tenant, owner=group.owner)


def _as_seen_by(principal: Principal, row: ReceiptRow) -> Receipt:
    def is_seen(owner: tuple[str, str] | None) -> bool:
        return owner is not None and principal.may_see(tenant=owner[0], owner=owner[1])

    def is_known(tenant: str | None) -> bool:
        return principal.is_operator or tenant in (None, principal.tenant)

    return Receipt(
        row=row,
        victim=row.victim_group if is_seen(row.victim_owner) else None,
        victim_queue=row.victim_queue if is_known(row.victim_queue_tenant) else None,
        claimant=row.claimant_group if is_seen(row.claimant_owner) else None,
        claimant_queue=row.claimant_queue if is_known(row.claimant_queue_tenant) else None,
    )
