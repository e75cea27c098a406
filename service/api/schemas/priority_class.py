"""Priority classes on the wire."""

from __future__ import annotations

from service.wire.group_values import Priority
from service.wire.values import AnswerStruct, RequestStruct


class PriorityClassRequest(RequestStruct, frozen=True, kw_only=True):
    """`value`: the priority that the name stands for, for groups that are submitted from now on."""

    value: Priority


class PriorityClassAnswer(AnswerStruct, frozen=True, kw_only=True):
    name: str
    value: int


class PriorityClassList(AnswerStruct, frozen=True, kw_only=True):
    priority_classes: list[PriorityClassAnswer]
