"""Positions and reasons as they are answered."""

from __future__ import annotations

from datetime import datetime
from math import ceil
from uuid import UUID

from service.domain.reasons import Reason
from service.operations.explain_group import Explanation, Standing
from service.operations.forecast_group import Forecast, ForecastBasis
from service.operations.tell_reasons import Told
from service.wire.values import AnswerStruct


class PositionAnswer(AnswerStruct, frozen=True, kw_only=True):
    """Where a group stands, as the cycle `cycle_id` saw it at `as_of`. The first has position 1. It is
    null if nothing of the group waits, or if what waits may not start now: see its reasons."""

    id: UUID
    queue: str
    is_waiting: bool
    position: int | None
    #: Over all queues.
    overall_position: int | None
    #: Groups of the queue that have a position.
    queue_length: int
    as_of: datetime | None
    cycle_id: int | None
    #: The date of its claim: when the places that are kept for it should be free.
    planned_start_at: datetime | None
    #: When places are kept for it whatever their date, if nothing but places is missing until then. Null
    #: while more is missing, so that its guard stands still.
    guard_at: datetime | None
    #: So much of its guard is left. Null if nothing of it may start now, for a reason of its own.
    guard_left_seconds: int | None


class ReasonAnswer(AnswerStruct, frozen=True, kw_only=True):
    """One blocker. `need`, `have` and `limit` are in the unit of the resource that `scope` names
    (GPUs, thousandths of a CPU, MiB). `holders` are groups; of those of other owners only the number
    is told."""

    code: str
    message: str
    need: int | None
    have: int | None
    limit: int | None
    scope: dict[str, str]
    holders: list[str]
    other_holders: int
    since: datetime | None
    cycle_id: int | None


class ReasonsAnswer(AnswerStruct, frozen=True, kw_only=True):
    """All that blocks a group at once, the most decisive first. Empty if nothing of it waits."""

    id: UUID
    queue: str
    is_waiting: bool
    position: int | None
    as_of: datetime | None
    cycle_id: int | None
    reasons: list[ReasonAnswer]


class ForecastAnswer(AnswerStruct, frozen=True, kw_only=True):
    """When a group is likely to start: as likely as not until `p50_at`, nine times in ten until `p90_at`. It
    promises nothing; `planned_start_at`, the date of its claim, rests on enforced ends. `basis`: who is on
    the places that are kept for it (`claim`), or how long others of its queue waited (`waits`); null: nothing
    is known. `samples`: so many runtimes or waits were looked at."""

    id: UUID
    queue: str
    is_waiting: bool
    basis: ForecastBasis | None
    p50_at: datetime | None
    p90_at: datetime | None
    samples: int
    #: What it rests on, or why there is none.
    assumptions: list[str]
    planned_start_at: datetime | None


def forecast_answer(forecast: Forecast) -> ForecastAnswer:
    return ForecastAnswer(
        id=forecast.group.public_id,
        queue=forecast.group.queue,
        is_waiting=forecast.is_waiting,
        basis=forecast.basis,
        p50_at=forecast.likely.p50_at,
        p90_at=forecast.likely.p90_at,
        samples=forecast.samples,
        assumptions=list(forecast.assumptions),
        planned_start_at=forecast.planned_start_at,
    )


def position_answer(standing: Standing, now: datetime) -> PositionAnswer:
    guard = standing.guard
    left = None if guard is None else guard.left if guard.runs_out_at is None else guard.runs_out_at - now
    return PositionAnswer(
        id=standing.group.public_id,
        queue=standing.group.queue,
        is_waiting=standing.is_waiting,
        position=standing.position,
        overall_position=standing.overall,
        queue_length=standing.waiting_groups,
        as_of=standing.as_of,
        cycle_id=standing.cycle_id,
        planned_start_at=standing.planned_start_at,
        guard_at=None if guard is None else guard.runs_out_at,
        guard_left_seconds=None if left is None else max(0, ceil(left.total_seconds())),
    )


def reasons_answer(explanation: Explanation) -> ReasonsAnswer:
    standing = explanation.standing
    return ReasonsAnswer(
        id=standing.group.public_id,
        queue=standing.group.queue,
        is_waiting=standing.is_waiting,
        position=standing.position,
        as_of=standing.as_of,
        cycle_id=standing.cycle_id,
        reasons=reason_answers(explanation.told),
    )


def reason_answers(told: Told) -> list[ReasonAnswer]:
    pairs = zip(told.reasons, told.hidden, strict=True)
    return [_reason_answer(reason, hidden) for reason, hidden in pairs]


def _reason_answer(reason: Reason, hidden: int) -> ReasonAnswer:
    return ReasonAnswer(
        code=reason.code.value,
        message=reason.message,
        need=reason.need,
        have=reason.have,
        limit=reason.limit,
        scope=dict(reason.scope),
        holders=list(reason.holders),
        other_holders=hidden,
        since=reason.since,
        cycle_id=reason.cycle_id,
    )
