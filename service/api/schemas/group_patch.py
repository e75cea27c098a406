"""What may be changed of a group, as it is sent."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from service.domain.errors import FieldError, InvalidRequest
from service.domain.group_change import GroupChange, TimeLimit
from service.wire.group_values import ClassName, Labels, Priority
from service.wire.values import Duration, RequestStruct, seconds_of


class GroupPatch(RequestStruct, frozen=True, kw_only=True):
    """What to change. `time_limit` runs from admission, whenever it is set; null: none. `labels` replace all
    that there are."""

    priority: Priority | ClassName | UnsetType = UNSET
    time_limit: Duration | UnsetType | None = UNSET
    labels: Labels | UnsetType = UNSET


def change_of(patch: GroupPatch) -> GroupChange:
    return GroupChange(
        priority=patch.priority if isinstance(patch.priority, int) else None,
        priority_class=patch.priority if isinstance(patch.priority, str) else None,
        time_limit=None if patch.time_limit is UNSET else _time_limit(patch.time_limit),
        labels=None if patch.labels is UNSET else patch.labels,
    )


def _time_limit(given: str | float | None) -> TimeLimit:
    seconds = None if given is None else seconds_of(given, field="time_limit")
    if seconds == 0:
        message = "time_limit must be at least one second, or null for none"
        raise InvalidRequest(message, errors=[FieldError("time_limit", message)])
    return TimeLimit(seconds=seconds)
