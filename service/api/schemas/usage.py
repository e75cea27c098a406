"""What owners used, on the wire. Resources are named as in quotas: flavors, `cpus` and `memory_gib`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias

import msgspec
from litestar.params import QueryParameter

from service.api.schemas.sealed_cursor import open_cursor, seal_cursor
from service.operations.learned_runtimes import Basis
from service.operations.read_usage import PageStart, RuntimesView, UsageView
from service.operations.secret_box import SecretBox
from service.store.usage_reads import UsageKey, UsageRow
from service.wire.amounts import resource_name, unit_of
from service.wire.values import AnswerStruct, duration_text, whole_if_it_is

_HOUR = 3600


class UsageEntry(AnswerStruct, frozen=True, kw_only=True):
    """What one user used of one resource in one queue, in hours: GPU-hours of a flavor, CPU-hours, GiB-hours.
    `held_now`: an amount. `hours`: in all, by what runs now, too; `lost_hours`: the part of them that the
    platform lost, which is charged to nobody; `decayed_hours`: what is over, was charged and counts yet."""

    queue: str
    tenant: str
    user: str
    resource: str
    held_now: float
    hours: float
    lost_hours: float
    decayed_hours: float


class UsageAnswer(AnswerStruct, frozen=True, kw_only=True):
    """`half_life`: by which use that is over counts; null: it does not count. `cursor` gets the next page,
    with what runs told as of the same instant; null on the last."""

    as_of: datetime
    half_life: str | None
    usage: list[UsageEntry]
    cursor: str | None


class RuntimesAnswer(AnswerStruct, frozen=True, kw_only=True):
    """How long half, and nine in ten, of the newest attempts ran until they ended by themselves. `basis`:
    whose: the user's own in the queue, everybody's in it, or all; null: too few have ended. `at_limit`: how
    many of the samples ran into their time limit, and would have run on. It promises nothing."""

    queue: str
    tenant: str
    user: str
    basis: Basis | None
    samples: int
    at_limit: int
    p50_seconds: float | None
    p90_seconds: float | None


#: One statement is of one instant, and costs about the same for a page as for all.
MOST_ENTRIES = 10_000
UsageLimit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=MOST_ENTRIES)]


class _Key(msgspec.Struct, array_like=True, frozen=True):
    queue: str
    tenant: str
    owner: str
    resource: str
    as_of: datetime


def start_of(cursor: str | None, box: SecretBox, *, now: datetime) -> PageStart:
    """Raises InvalidRequest that names `cursor`."""
    if cursor is None:
        return PageStart(after=None, as_of=now)
    *key, as_of = msgspec.structs.astuple(open_cursor(cursor, _Key, box))
    return PageStart(after=UsageKey(*key), as_of=as_of)


def usage_answer(view: UsageView, box: SecretBox) -> UsageAnswer:
    half_life = view.half_life_seconds
    return UsageAnswer(
        as_of=view.as_of,
        half_life=duration_text(max(1, round(half_life))) if half_life > 0 else None,
        usage=[_entry(row) for row in view.rows],
        cursor=None if view.next_key is None else seal_cursor(_Key(*view.next_key, view.as_of), box),
    )


def runtimes_answer(view: RuntimesView) -> RuntimesAnswer:
    has_basis = view.basis is not None
    return RuntimesAnswer(
        queue=view.queue,
        tenant=view.tenant,
        user=view.user,
        basis=view.basis,
        samples=view.found.samples,
        at_limit=view.found.cut,
        p50_seconds=view.found.p50_seconds if has_basis else None,
        p90_seconds=view.found.p90_seconds if has_basis else None,
    )


def _entry(row: UsageRow) -> UsageEntry:
    unit = unit_of(row.resource)
    return UsageEntry(
        queue=row.queue,
        tenant=row.tenant,
        user=row.owner,
        resource=resource_name(row.resource),
        held_now=whole_if_it_is(row.amount / unit),
        hours=row.held_seconds / unit / _HOUR,
        lost_hours=row.lost_seconds / unit / _HOUR,
        decayed_hours=row.decayed_seconds / unit / _HOUR,
    )
