"""What a check of a group answers."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from service.api.schemas.explanation import ReasonAnswer, reason_answers
from service.api.schemas.group_answer import PlaceAnswer
from service.domain.errors import InvalidRequest
from service.operations.check_group import Check
from service.wire.values import AnswerStruct


class WrongFieldAnswer(AnswerStruct, frozen=True, kw_only=True):
    """One field that is wrong, as a submit would name it."""

    field: str
    message: str


class CheckAnswer(AnswerStruct, frozen=True, kw_only=True):
    """What would come of a group if it were submitted at `as_of`. `admit`: all of it would start at once;
    `wait`: it would be taken, and not all of it would start; `refuse`: a submit would be refused, or the
    group be Cancelled at once. Nothing is kept for it: somebody else may come first."""

    would: Literal["admit", "wait", "refuse"]
    as_of: datetime
    #: Why it would be refused.
    detail: str | None
    errors: list[WrongFieldAnswer]
    #: Where members of it would start at once.
    places: list[PlaceAnswer]
    #: Why the others would wait, the most decisive reason first.
    reasons: list[ReasonAnswer]
    #: Its place in the queue. Null where it would not wait, or may not start yet.
    position: int | None
    #: When the places should be free that would be kept for it, if any would at once.
    planned_start_at: datetime | None


def check_answer(check: Check, as_of: datetime) -> CheckAnswer:
    return CheckAnswer(
        would="admit" if check.is_whole else "wait",
        as_of=as_of,
        detail=None,
        errors=[],
        places=[PlaceAnswer(node=each.node, gpus=each.gpus, members=each.members) for each in check.places],
        reasons=reason_answers(check.told),
        position=check.position,
        planned_start_at=check.planned_start_at,
    )


def refused_answer(refusal: InvalidRequest, as_of: datetime) -> CheckAnswer:
    return CheckAnswer(
        would="refuse",
        as_of=as_of,
        detail=refusal.message,
        errors=[WrongFieldAnswer(field=each.field, message=each.message) for each in refusal.errors],
        places=[],
        reasons=[],
        position=None,
        planned_start_at=None,
    )
