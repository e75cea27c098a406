"""What owners used, and how long their groups are likely to run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Engine

from service.domain.errors import NotFound
from service.domain.principal import Principal
from service.operations.learned_runtimes import Basis, best_runtimes
from service.operations.read_queues import may_see, no_queue
from service.store.queues import find_queue
from service.store.usage_ledger import get_half_life
from service.store.usage_reads import (
    Runtimes,
    UsageFilter,
    UsageKey,
    UsageRow,
    list_usage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStart:
    """Behind which entry a page begins (None: the first), and for which instant its amounts are: that of the
    first page."""

    after: UsageKey | None
    as_of: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageView:
    """One page."""

    half_life_seconds: float
    as_of: datetime
    rows: tuple[UsageRow, ...]
    next_key: UsageKey | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimesView:
    """`basis` None: too few have ended to say anything."""

    queue: str
    tenant: str
    user: str
    basis: Basis | None
    found: Runtimes


def get_usage(
    engine: Engine,
    wanted: UsageFilter,
    *,
    principal: Principal,
    start: PageStart,
    limit: int,
) -> UsageView:
    """Everybody's for operators; for others their own, and of somebody else nothing."""
    is_own = wanted.tenant in (None, principal.tenant) and wanted.owner in (None, principal.user)
    if not principal.is_operator:
        wanted = replace(wanted, tenant=principal.tenant, owner=principal.user)
    with engine.connect() as conn:
        half_life, rows = get_half_life(conn), []
        if is_own or principal.is_operator:
            rows = list_usage(
                conn,
                wanted,
                half_life_seconds=half_life,
                now=start.as_of,
                after=start.after,
                limit=limit + 1,
            )
    page = tuple(rows[:limit])
    return UsageView(
        half_life_seconds=half_life,
        as_of=start.as_of,
        rows=page,
        next_key=page[-1].key if len(rows) > limit else None,
    )


def get_runtimes(
    engine: Engine, queue: str, *, tenant: str | None, user: str | None, principal: Principal
) -> RuntimesView:
    """Of a user's own attempts in the queue, if there are enough; else of everybody's in it; else of all.

    The user is the caller unless somebody is named, which is for operators. Raises NotFound, also for a
    queue of another tenant.
    """
    owner = (tenant or principal.tenant, user or principal.user)
    if owner != (principal.tenant, principal.user) and not principal.is_operator:
        raise NotFound(f"There is no user {owner[1]}.")
    with engine.connect() as conn:
        found = find_queue(conn, queue)
        if found is None or not may_see(principal, found):
            raise no_queue(queue)
        basis, runtimes = best_runtimes(conn, queue_id=found.id, owner=owner)
    return RuntimesView(queue=queue, tenant=owner[0], user=owner[1], basis=basis, found=runtimes)
