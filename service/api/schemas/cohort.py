"""Cohorts on the wire: amounts by flavor in GPUs, `cpus` in CPUs, `memory_gib` in GiB."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType

from service.api.schemas.amounts import Amounts, amounts_answer
from service.api.schemas.queue import Weight
from service.api.schemas.said import Readers, as_limits, as_said, read_said
from service.api.wire import AnswerStruct, Name, RequestStruct, whole_if_it_is
from service.domain.tree import CohortSettings
from service.operations.read_cohorts import CohortView


class CohortRequest(RequestStruct, frozen=True, kw_only=True):
    """A cohort to make. `nominal_quota`: what it has besides that of its members. With a `parent`,
    `borrowing_limit` and `lending_limit` bound what all of it together takes from outside, and gives."""

    name: Name
    parent: Name | None = None
    weight: Weight = 1.0
    nominal_quota: Amounts | None = None
    borrowing_limit: Amounts | None = None
    lending_limit: Amounts | None = None


class CohortPatch(RequestStruct, frozen=True, kw_only=True):
    """What to change. A map replaces the whole map."""

    parent: Name | UnsetType | None = UNSET
    weight: Weight | UnsetType = UNSET
    nominal_quota: Amounts | UnsetType | None = UNSET
    borrowing_limit: Amounts | UnsetType | None = UNSET
    lending_limit: Amounts | UnsetType | None = UNSET


class CohortAnswer(AnswerStruct, frozen=True, kw_only=True):
    """A cohort. `cohorts` and `queues`: what is directly in it. `total_quota`: its nominal quota and that of
    everything below it; `used`: what all groups below it hold; `borrowed`: what of it is taken from the
    parent."""

    name: str
    parent: str | None
    weight: float
    nominal_quota: dict[str, float]
    borrowing_limit: dict[str, float]
    lending_limit: dict[str, float]
    cohorts: list[str]
    queues: list[str]
    total_quota: dict[str, float]
    used: dict[str, float]
    borrowed: dict[str, float]
    created_at: datetime


class CohortList(AnswerStruct, frozen=True, kw_only=True):
    cohorts: list[CohortAnswer]


def cohort_answer(view: CohortView) -> CohortAnswer:
    return CohortAnswer(
        **cohort_fields(view.cohort.settings),
        cohorts=list(view.cohorts),
        queues=list(view.queues),
        total_quota=amounts_answer(view.total),
        used=amounts_answer(view.used),
        borrowed=amounts_answer(view.borrowed),
        created_at=view.cohort.created_at,
    )


def cohort_fields(settings: CohortSettings) -> dict[str, Any]:
    """Everything that a request may say of a cohort, under the names of the wire."""
    return {
        "name": settings.name,
        "parent": settings.parent,
        "weight": whole_if_it_is(settings.weight),
        "nominal_quota": amounts_answer(settings.quota.nominal or {}),
        "borrowing_limit": amounts_answer(settings.quota.borrowing),
        "lending_limit": amounts_answer(settings.quota.lending),
    }


def new_cohort(request: CohortRequest) -> CohortSettings:
    """Raises InvalidRequest that names the field."""
    return changed_cohort(CohortSettings(name=request.name), request)


def changed_cohort(before: CohortSettings, said: CohortRequest | CohortPatch) -> CohortSettings:
    """`before` with everything that was said. Raises InvalidRequest that names the field."""
    return replace(before, **read_said(said, _OWN), quota=replace(before.quota, **read_said(said, _OF_QUOTA)))


_OWN: Readers = {name: (name, as_said) for name in ("parent", "weight")}
_OF_QUOTA: Readers = {
    "nominal_quota": ("nominal", as_limits),
    "borrowing_limit": ("borrowing", as_limits),
    "lending_limit": ("lending", as_limits),
}
