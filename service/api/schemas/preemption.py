"""Receipts of preemptions as they are answered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import isinf
from typing import Literal

from service.operations.read_preemptions import Receipt, ReceiptPage
from service.store.preemption_reads import ReceiptKey
from service.wire.values import AnswerStruct

Share = float | Literal["infinite"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class SharesAnswer(AnswerStruct, frozen=True, kw_only=True):
    """Shares of both queues below the cohort that they have in common; `infinite` for weight 0."""

    claimant: Share
    victim: Share


class PreemptionAnswer(AnswerStruct, frozen=True, kw_only=True):
    """One attempt that gave way. `victim` and `claimant` are groups; null where it is somebody else's, or
    was dropped; so are queues of other tenants. `victim_members`: how many members it gave up and runs on
    without; null: all of it gave way. `entitlement`: Priority (within a queue), Reclaim (of nominal quota)
    or FairShare.
    `outcome`: null while the claimant waits, Started, or Wasted, with its cause. `lost_gpu_seconds`:
    work since the last checkpoint, and the cost of a restart."""

    victim: str | None
    victim_queue: str | None
    victim_attempt: int
    victim_members: int | None
    claimant: str | None
    claimant_queue: str | None
    entitlement: Literal["Priority", "Reclaim", "FairShare"]
    shares_before: SharesAnswer
    shares_after: SharesAnswer
    lost_gpu_seconds: float
    decided_at: datetime
    outcome: Literal["Started", "Wasted"] | None
    outcome_at: datetime | None
    outcome_cause: Literal["ClaimantEnded", "EntitlementLost", "PlaceLost"] | None


class PreemptionPageAnswer(AnswerStruct, frozen=True, kw_only=True):
    """`cursor` gets the next page; null on the last."""

    preemptions: list[PreemptionAnswer]
    cursor: str | None


def page_answer(page: ReceiptPage) -> PreemptionPageAnswer:
    return PreemptionPageAnswer(
        preemptions=[_answer(receipt) for receipt in page.receipts],
        cursor=None if page.next_key is None else _cursor_of(page.next_key),
    )


def key_of(cursor: str | None) -> ReceiptKey | None:
    """Of a cursor with the pattern of RECEIPT_CURSOR."""
    if cursor is None:
        return None
    at, unit_id, attempt = map(int, cursor.split("."))
    return ReceiptKey(_EPOCH + at * _MICROSECOND, unit_id, attempt)


def _cursor_of(key: ReceiptKey) -> str:
    return f"{(key.decided_at - _EPOCH) // _MICROSECOND}.{key.unit_id}.{key.attempt}"


def _answer(receipt: Receipt) -> PreemptionAnswer:
    row = receipt.row
    return PreemptionAnswer(
        victim=None if receipt.victim is None else str(receipt.victim),
        victim_queue=receipt.victim_queue,
        victim_attempt=row.key.attempt,
        victim_members=row.members,
        claimant=None if receipt.claimant is None else str(receipt.claimant),
        claimant_queue=receipt.claimant_queue,
        entitlement=row.entitlement,  # type: ignore[arg-type]
        shares_before=SharesAnswer(
            claimant=_share(row.claimant_share_before), victim=_share(row.victim_share_before)
        ),
        shares_after=SharesAnswer(
            claimant=_share(row.claimant_share_after), victim=_share(row.victim_share_after)
        ),
        lost_gpu_seconds=row.lost_gpu_seconds,
        decided_at=row.key.decided_at,
        outcome=row.outcome,  # type: ignore[arg-type]
        outcome_at=row.outcome_at,
        outcome_cause=row.outcome_cause,  # type: ignore[arg-type]
    )


def _share(share: float) -> Share:
    return "infinite" if isinf(share) else share
