"""Cohorts as requests say them: amounts by flavor in GPUs, `cpus` in CPUs, `memory_gib` in GiB."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import UNSET, UnsetType

from service.domain.tree import CohortSettings
from service.wire.amounts import Amounts, amounts_answer
from service.wire.queue import Weight
from service.wire.said import Readers, as_limits, as_said, read_said
from service.wire.values import Name, RequestStruct, whole_if_it_is


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
