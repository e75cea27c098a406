"""Receipts of preemptions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from service.client.transport import Transport

_PAGE = 500
Share = float | Literal["infinite"]


class Shares(Struct, frozen=True, kw_only=True):
    """Of both queues below the cohort that they have in common."""

    claimant: Share
    victim: Share


class Preemption(Struct, frozen=True, kw_only=True):
    """One attempt that gave way. `victim` and `claimant` None: somebody else's group, or one that was
    dropped; so are queues of other tenants. `victim_members` None: all of it gave way, else so many of its
    members. `outcome`: None while the claimant waits, `Started`, or `Wasted` with its cause."""

    victim: str | None
    victim_queue: str | None
    victim_attempt: int
    victim_members: int | None
    claimant: str | None
    claimant_queue: str | None
    entitlement: str
    shares_before: Shares
    shares_after: Shares
    lost_gpu_seconds: float
    decided_at: datetime
    outcome: str | None
    outcome_at: datetime | None
    outcome_cause: str | None


class _Page(Struct, frozen=True, kw_only=True):
    preemptions: list[Preemption]
    cursor: str | None


class Preemptions:
    """An operator sees all, others those of their own groups."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask

    def list(self, *, group: str | None = None) -> Iterator[Preemption]:
        """The newest first, page by page as they are asked for; of one group, on either side, or of all."""
        query: dict[str, Any] = {"group": group, "limit": _PAGE}
        while True:
            page = self._ask("GET", "/v1/preemptions", _Page, query=query)
            yield from page.preemptions
            if page.cursor is None:
                return
            query["cursor"] = page.cursor
