"""What would come of a group, asked before it is submitted."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from service.client.errors import ApiError, WrongField
from service.client.explanations import Reason
from service.client.groups import GroupPlace


class Check(Struct, frozen=True, kw_only=True):
    """`would`: `admit`, all of it would start at once; `wait`, not all of it would; `refuse`, a submit would
    be refused for `detail`, or the group be Cancelled at once. `places`: where members would start at once;
    `reasons`: why others would wait, the most decisive first."""

    would: str
    as_of: datetime | None
    detail: str | None
    errors: list[WrongField]
    places: list[GroupPlace]
    reasons: list[Reason]
    position: int | None
    planned_start_at: datetime | None


def refused(error: ApiError) -> Check:
    """Of a body that is no group: nobody has looked at the cluster."""
    return Check(
        would="refuse",
        as_of=None,
        detail=error.detail,
        errors=list(error.errors),
        places=[],
        reasons=[],
        position=None,
        planned_start_at=None,
    )
