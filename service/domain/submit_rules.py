"""What a queue asks of a group that is submitted to it, or changed."""

from __future__ import annotations

from collections.abc import Iterator

from service.domain.errors import FieldError
from service.domain.principal import KeyRole
from service.domain.queue import QueuePolicy


def broken_priority_rules(priority: int, policy: QueuePolicy, *, role: KeyRole) -> Iterator[FieldError]:
    highest = policy.highest_priority.get(role.value)
    if highest is not None and priority > highest:
        yield FieldError(
            "priority", f"{priority} is above {highest}, the highest that role {role} may set in this queue"
        )


def broken_time_limit_rules(seconds: int | None, policy: QueuePolicy) -> Iterator[FieldError]:
    longest = policy.max_time_limit_seconds
    if longest is not None and (seconds is None or seconds > longest):
        asked = "no limit" if seconds is None else f"{seconds} s"
        yield FieldError("time_limit", f"{asked} is above {longest} s, the longest that this queue allows")
