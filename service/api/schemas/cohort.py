"""Cohorts in answers: amounts by flavor in GPUs, `cpus` in CPUs, `memory_gib` in GiB."""

from __future__ import annotations

from datetime import datetime

from service.operations.read_cohorts import CohortView
from service.wire.amounts import amounts_answer
from service.wire.cohort import cohort_fields
from service.wire.values import AnswerStruct


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
