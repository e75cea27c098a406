"""Blockers of a plan and facts of a group, told as reasons; and what of them a reader may see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from service.admission.plan import Blocker
from service.domain.dependency import When
from service.domain.principal import Principal
from service.domain.reasons import Code, Reason
from service.domain.wording import message
from service.store.waiting_reads import list_visible_holders


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Reasons as a reader may see them. `hidden`: how many of a reason's holders, by the position of the
    reason, belong to others."""

    reasons: tuple[Reason, ...]
    hidden: tuple[int, ...]


def tell_to(conn: Connection, reasons: Sequence[Reason], *, principal: Principal) -> Told:
    """Without the holders that are other users' groups, unless an operator asks."""
    hidden = _hidden_holders(conn, reasons, principal=principal)
    return Told(
        reasons=tuple(_without(reason, hidden) for reason in reasons),
        hidden=tuple(sum(holder in hidden for holder in reason.holders) for reason in reasons),
    )


def reason_of(
    blocker: Blocker, numbers: Mapping[str, int], *, since: datetime | None = None, cycle: int | None = None
) -> Reason:
    """With the numbers that many share."""
    have = None if blocker.have_key is None else numbers.get(blocker.have_key)
    limit = None if blocker.limit_key is None else numbers.get(blocker.limit_key)
    return Reason(
        code=blocker.code,
        message=message(
            blocker.code,
            need=blocker.need,
            have=have,
            limit=limit,
            scope=blocker.scope,
            holders=blocker.holders,
        ),
        need=blocker.need,
        have=have,
        limit=limit,
        scope=blocker.scope,
        holders=blocker.holders,
        since=since,
        cycle_id=cycle,
    )


def reason_of_stopped(queue: str) -> Reason:
    code, scope = Code.QUEUE_STOPPED, {"queue": queue}
    return Reason(code=code, message=message(code, scope=scope), scope=scope)


def reasons_of_after(awaited: Mapping[When, tuple[str, ...]]) -> Iterator[Reason]:
    """Groups that have to end first, by how they have to."""
    for when, holders in awaited.items():
        code, scope = Code.DEPENDENCY_PENDING, {"when": when.value}
        yield Reason(
            code=code,
            message=message(code, scope=scope, holders=holders),
            need=len(holders),
            scope=scope,
            holders=holders,
        )


def reason_of_not_before(at: datetime) -> Reason:
    until = at.isoformat(timespec="seconds")
    return Reason(
        code=Code.BACKING_OFF,
        message=f"its owner does not want it to start before {until}",
        scope={"until": until, "of": "not_before"},
    )


def reasons_of_preemption(victims: tuple[str, ...], *, is_dry_run: bool = False) -> Iterator[Reason]:
    """Groups that give way, or would have to."""
    if victims:
        code, need = Code.PREEMPTION_IN_PROGRESS, len(victims)
        scope = {"of": "dry_run"} if is_dry_run else {}
        said = message(code, need=need, scope=scope, holders=victims)
        yield Reason(code=code, message=said, need=need, scope=scope, holders=victims)


def _hidden_holders(conn: Connection, reasons: Sequence[Reason], *, principal: Principal) -> frozenset[str]:
    holders = {holder for reason in reasons for holder in reason.holders}
    if principal.is_operator or not holders:
        return frozenset()
    own = list_visible_holders(conn, holders, tenant=principal.tenant, owner=principal.user)
    return frozenset(holders - own)


def _without(reason: Reason, hidden: frozenset[str]) -> Reason:
    """The reason without those holders, neither in its list nor in its sentence."""
    if hidden.isdisjoint(reason.holders):
        return reason
    visible = tuple(holder for holder in reason.holders if holder not in hidden)
    text = message(
        reason.code,
        need=reason.need,
        have=reason.have,
        limit=reason.limit,
        scope=reason.scope,
        holders=visible,
    )
    return replace(reason, holders=visible, message=text)
