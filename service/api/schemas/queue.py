"""Queues on the wire: amounts by flavor in GPUs, `cpus` in CPUs, `memory_gib` in GiB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from service.api.patterns import LINE
from service.api.wire import (
    AnswerStruct,
    Name,
    RequestStruct,
    cpus_milli_of,
    memory_mib_of,
    number_of,
)
from service.domain.errors import FieldError, InvalidRequest, UnsupportedField
from service.domain.queue import Order, Quota, Stop
from service.domain.resources import CPUS, MEMORY
from service.operations.queues import QueueChange, QueueView

_CPUS, _MEMORY = "cpus", "memory_gib"

Flavor: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, pattern=LINE)]
Amount: TypeAlias = Annotated[float, Meta(ge=0, le=1_000_000_000)]
#: Flavor to whole GPUs, and `cpus` and `memory_gib`.
Amounts: TypeAlias = Annotated[dict[Flavor, Amount], Meta(max_length=256)]
#: Of a feature that is not built: nothing but its default is taken.
NotYet: TypeAlias = Annotated[dict[Flavor, Amount], Meta(max_length=256)] | None


class _Unbuilt(RequestStruct, frozen=True, kw_only=True):
    """Fields of cohorts, fair sharing and preemption, refused unless they say nothing."""

    cohort: Name | None = None
    weight: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    borrowing_limit: NotYet = None
    lending_limit: NotYet = None
    flavors: Annotated[list[Flavor], Meta(max_length=256)] | None = None
    preempt_within: Literal["never", "lower_priority"] = "never"
    reclaim: Literal["never", "lower_priority", "any", "fair_share"] = "never"


class QueueRequest(_Unbuilt, frozen=True, kw_only=True):
    """A queue to make. `nominal_quota` null: no quota at all; `{}`: nothing of any flavor. A flavor
    that is not named has 0, CPUs and memory that are not named are unlimited. `limit`: the most that
    the queue may ever hold."""

    name: Name
    tenant: Name | None = None
    order: Order = Order.BEST_EFFORT
    stop: Stop = Stop.NONE
    nominal_quota: Amounts | None = None
    limit: Amounts | None = None


class QueuePatch(_Unbuilt, frozen=True, kw_only=True):
    """What to change. A map replaces the whole map."""

    tenant: Name | UnsetType | None = UNSET
    order: Order | UnsetType = UNSET
    stop: Stop | UnsetType = UNSET
    nominal_quota: Amounts | UnsetType | None = UNSET
    limit: Amounts | UnsetType | None = UNSET


class QueueAnswer(AnswerStruct, frozen=True, kw_only=True):
    """A queue. `used`: what its groups hold; `demanded`: that, and what its Pending groups ask for
    (`*`: GPUs for which a group names no model); `waiting`: how many groups have a waiting part."""

    name: str
    tenant: str | None
    order: Order
    stop: Stop
    nominal_quota: dict[str, float] | None
    limit: dict[str, float]
    used: dict[str, float]
    demanded: dict[str, float]
    waiting: int
    created_at: datetime


class QueueList(AnswerStruct, frozen=True, kw_only=True):
    queues: list[QueueAnswer]


def queue_answer(view: QueueView) -> QueueAnswer:
    queue = view.queue
    return QueueAnswer(
        name=queue.name,
        tenant=queue.tenant,
        order=queue.order,
        stop=queue.stop,
        nominal_quota=None if queue.quota.nominal is None else amounts_answer(queue.quota.nominal),
        limit=amounts_answer(queue.quota.limit or {}),
        used=amounts_answer(view.used),
        demanded=amounts_answer(view.demanded),
        waiting=view.waiting_groups,
        created_at=queue.created_at,
    )


def amounts_answer(amounts: Mapping[str, int]) -> dict[str, float]:
    """Amounts by resource, in the units of the wire."""
    shown: dict[str, float] = {
        flavor: amount for flavor, amount in amounts.items() if flavor not in (CPUS, MEMORY)
    }
    if CPUS in amounts:
        shown[_CPUS] = number_of(amounts[CPUS], 1000)
    if MEMORY in amounts:
        shown[_MEMORY] = number_of(amounts[MEMORY], 1024)
    return dict(sorted(shown.items()))


def quota_of(request: QueueRequest) -> Quota:
    return Quota(
        nominal=_resources(request.nominal_quota, "nominal_quota"), limit=_resources(request.limit, "limit")
    )


def change_of(patch: QueuePatch) -> QueueChange:
    nominal, limit = patch.nominal_quota, patch.limit
    return QueueChange(
        tenant=patch.tenant,
        order=patch.order,
        stop=patch.stop,
        nominal=UNSET if nominal is UNSET else _resources(nominal, "nominal_quota"),
        limit=UNSET if limit is UNSET else _resources(limit, "limit"),
    )


def refuse_unbuilt(request: QueueRequest | QueuePatch) -> None:
    """Raise UnsupportedField for fields of features that are not built, unless they say nothing."""
    used = [
        name
        for name, is_used in (
            ("cohort", request.cohort is not None),
            ("weight", request.weight not in (None, 1)),
            ("borrowing_limit", bool(request.borrowing_limit)),
            ("lending_limit", bool(request.lending_limit)),
            ("flavors", request.flavors is not None),
            ("preempt_within", request.preempt_within != "never"),
            ("reclaim", request.reclaim != "never"),
        )
        if is_used
    ]
    if used:
        raise UnsupportedField(
            f"Not supported yet: {', '.join(used)}.",
            errors=[FieldError(name, "Not supported yet; leave it out.") for name in used],
        )


def _resources(amounts: Mapping[str, float] | None, field: str) -> dict[str, int] | None:
    """By resource, in its smallest unit. Raises InvalidRequest that names the entry."""
    if amounts is None:
        return None
    errors = list(_wrong(amounts, field))
    if errors:
        raise InvalidRequest(f"{errors[0].field}: {errors[0].message}", errors=errors)
    return dict(_resource(name, amount) for name, amount in amounts.items())


def _resource(name: str, amount: float) -> tuple[str, int]:
    if name == _CPUS:
        return CPUS, cpus_milli_of(amount)
    if name == _MEMORY:
        return MEMORY, memory_mib_of(amount)
    return name, int(amount)


def _wrong(amounts: Mapping[str, float], field: str) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        if name == MEMORY:
            yield FieldError(f"{field}.{name}", "Memory is named memory_gib.")
        elif name not in (_CPUS, _MEMORY) and amount != int(amount):
            yield FieldError(f"{field}.{name}", "GPUs are whole numbers.")
