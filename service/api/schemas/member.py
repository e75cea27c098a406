"""Members as they are answered."""

from __future__ import annotations

from datetime import datetime

from service.operations.read_members import Member
from service.wire.values import AnswerStruct


class MemberAnswer(AnswerStruct, frozen=True, kw_only=True):
    """One member. `attempt`, `cause` and `message` are those of its unit. `node` and `devices` say
    where it is, or where it ended. `exit_code` is 128 + n after signal n."""

    member: int
    role: str
    status: str
    attempt: int
    generation: int | None
    is_held: bool
    node: str | None
    devices: list[int]
    exit_code: int | None
    admitted_at: datetime | None
    ended_at: datetime | None
    cause: str | None
    message: str | None


class MemberPageAnswer(AnswerStruct, frozen=True, kw_only=True):
    """`cursor` gets the next page; null on the last."""

    members: list[MemberAnswer]
    cursor: str | None


def member_answer(member: Member) -> MemberAnswer:
    return MemberAnswer(
        member=member.member,
        role=member.role,
        status=member.status.value,
        attempt=member.attempt,
        generation=member.generation,
        is_held=member.is_held,
        node=member.node,
        devices=list(member.devices),
        exit_code=member.exit_code,
        admitted_at=member.admitted_at,
        ended_at=member.ended_at,
        cause=member.cause,
        message=member.message,
    )
