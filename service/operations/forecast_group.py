"""When a group that waits is likely to start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from redis import Redis
from sqlalchemy import Connection, Engine

from service.admission.forecast import FEWEST, InTheWay, Quantiles, forecast_end, forecast_wait
from service.domain.principal import Principal
from service.domain.reasons import Code, Reason
from service.operations.explain_group import explain_group
from service.operations.learned_runtimes import list_best_runtimes
from service.operations.read_groups import get_visible_group, reading
from service.store.claim_reads import GroupClaim, find_claim
from service.store.forecast_reads import HolderRow, list_holders_of_claim, list_waits
from service.store.group_reads import GroupRow
from service.store.shapes import load_shapes
from service.store.waiting_reads import WaitingFacts, get_waiting_facts

_NOTHING = Quantiles(p50_at=None, p90_at=None)
#: Runtimes are looked up of so many users in queues at most; of the others only enforced ends count.
_MOST_OWNERS = 64


class ForecastBasis(StrEnum):
    """What a forecast rests on: who is on the places that are kept for the group, or how long others of its
    queue waited."""

    CLAIM = "claim"
    WAITS = "waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`basis` None: there is none. `assumptions` say what it rests on, or why there is none.
    `planned_start_at`: the date of its claim, which rests on enforced ends."""

    group: GroupRow
    is_waiting: bool
    basis: ForecastBasis | None
    likely: Quantiles
    samples: int
    assumptions: tuple[str, ...]
    planned_start_at: datetime | None


def forecast_group(
    engine: Engine, redis: Redis, *, public_id: UUID, principal: Principal, now: datetime
) -> Forecast:
    """Raises NotFound and InventoryUnavailable."""
    told = explain_group(engine, redis, public_id=public_id, principal=principal, now=now)
    fits = all(reason.code is not Code.NEVER_FITS for reason in told.reasons)
    with reading(engine) as conn:
        group = get_visible_group(conn, public_id, principal=principal)
        facts = get_waiting_facts(conn, group.id, now=now)
        if not (fits and facts.is_eligible) or facts.since is None:
            return _none(group, facts, fits=fits)
        claim = find_claim(conn, group.id)
        if claim is not None and claim.gpus:
            return _by_claim(conn, group, claim=claim, now=now)
        waits = _waits_of_such(conn, group)
        likely = forecast_wait(waits, since=facts.since, now=now)
        return _by_waits(group, waits, likely=likely, kept=_kept_for_others(told.reasons))


def _none(group: GroupRow, facts: WaitingFacts, *, fits: bool) -> Forecast:
    why = "it may not start now" if fits else "it never fits"
    why = f"{why}: its reasons say why" if facts.rows else "nothing of it waits"
    return Forecast(
        group=group,
        is_waiting=facts.rows > 0,
        basis=None,
        likely=_NOTHING,
        samples=0,
        assumptions=(why,),
        planned_start_at=None,
    )


def _by_claim(conn: Connection, group: GroupRow, *, claim: GroupClaim, now: datetime) -> Forecast:
    holders = _in_the_way(conn, list_holders_of_claim(conn, group.id))
    planned = claim.due_at if claim.due_at is not None and claim.due_at > now else None
    likely = forecast_end(holders, now).not_after(planned)
    return Forecast(
        group=group,
        is_waiting=True,
        basis=ForecastBasis.CLAIM,
        likely=likely,
        samples=sum(len(each.runtimes) for each in holders if each.is_known(now)),
        assumptions=tuple(_of_holders(holders, now)),
        planned_start_at=planned,
    )


class _Kept(NamedTuple):
    """Places, or quota, are kept from it for others, until then at least; None: without a date."""

    until: datetime | None


def _kept_for_others(reasons: Iterable[Reason]) -> _Kept | None:
    dates = [reason.scope.get("until") for reason in reasons if reason.code is Code.HELD_FOR_CLAIM]
    if not dates:
        return None
    known = [datetime.fromisoformat(date) for date in dates if date is not None]
    return _Kept(max(known) if len(known) == len(dates) else None)


def _by_waits(group: GroupRow, waits: Sequence[float], *, likely: Quantiles, kept: _Kept | None) -> Forecast:
    """What others waited says nothing of what is kept from this one."""
    assumptions = [_of_waits(group, waits, is_known=likely.p50_at is not None)]
    if kept is not None and kept.until is None:
        likely = _NOTHING
        assumptions = ["what it needs is kept for others, without a date"]
    elif kept is not None and kept.until is not None and likely.p50_at is not None:
        likely = likely.not_before(kept.until)
        assumptions.append("but not before what is kept for others is free for it")
    is_known = likely.p50_at is not None
    return Forecast(
        group=group,
        is_waiting=True,
        basis=ForecastBasis.WAITS if is_known else None,
        likely=likely,
        samples=len(waits) if is_known else 0,
        assumptions=tuple(assumptions),
        planned_start_at=None,
    )


def _waits_of_such(conn: Connection, group: GroupRow) -> list[float]:
    """Of what needed at least as many GPUs at once, sorted: less may have been found sooner."""
    waits = list_waits(conn, group.queue_id)
    shapes = load_shapes(conn, {group.shape_id, *(wait.shape_id for wait in waits)})
    gpus = {shape_id: shape.at_least().total().gpus for shape_id, shape in shapes.items()}
    least = gpus[group.shape_id]
    return sorted(wait.seconds for wait in waits if gpus[wait.shape_id] >= least)


def _in_the_way(conn: Connection, rows: Sequence[HolderRow]) -> list[InTheWay]:
    known: dict[tuple[int, str, str], tuple[float, ...]] = {}
    for row in rows:
        key = (row.queue_id, row.tenant, row.owner)
        if key not in known and len(known) < _MOST_OWNERS:
            known[key] = list_best_runtimes(conn, queue_id=row.queue_id, owner=(row.tenant, row.owner))
    return [
        InTheWay(
            since=row.running_at or row.admitted_at,
            frees_at=row.frees_at,
            runtimes=known.get((row.queue_id, row.tenant, row.owner), ()),
        )
        for row in rows
    ]


def _of_holders(holders: Sequence[InTheWay], now: datetime) -> Iterator[str]:
    """What is taken for granted of whoever is on its places, or of whom nothing is known."""
    known = sum(each.is_known(now) for each in holders)
    bounded = sum(not each.is_known(now) and each.frees_at is not None for each in holders)
    endless = len(holders) - known - bounded
    if endless:
        yield f"{_of_all(endless, holders)} nobody knows when: no time limit, and no others that ran so long"
        return
    if not holders:
        yield "the places that are kept for it are free"
    if known:
        yield f"{_of_all(known, holders)} as others of {_whose(holders)} did"
    if bounded:
        yield f"{_of_all(bounded, holders)} by time limit: too few like that are known, or none ran so long"
    yield "nobody goes before it, and its places stay healthy"


def _of_all(some: int, holders: Sequence[InTheWay]) -> str:
    if len(holders) == 1:
        return "the group on its places ends"
    share = f"all {some}" if some == len(holders) else f"{some} of {len(holders)}"
    return f"{share} groups on its places end"


def _whose(holders: Sequence[InTheWay]) -> str:
    return "its user" if len(holders) == 1 else "their users"


def _of_waits(group: GroupRow, waits: Sequence[float], *, is_known: bool) -> str:
    such = f"of {group.queue} that need as many GPUs"
    if len(waits) < FEWEST:
        return f"no places are kept for it, and too few {such} started lately"
    if not is_known:
        return f"no places are kept for it, and it waits longer than all {such} and started lately"
    return f"no places are kept for it; it waits as the last {len(waits)} {such} did"
