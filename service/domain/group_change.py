"""What may be changed of a group after its submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimit:
    """`seconds` None: no limit."""

    seconds: int | None

    def is_above(self, other: TimeLimit) -> bool:
        if self.seconds is None or other.seconds is None:
            return self.seconds is None and other.seconds is not None
        return self.seconds > other.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """None: as it is. `priority_class` names the priority that it gets. `labels` are all that it has from
    then on."""

    priority: int | None = None
    priority_class: str | None = None
    time_limit: TimeLimit | None = None
    labels: Mapping[str, str] | None = None

    def __bool__(self) -> bool:
        return any(
            each is not None for each in (self.priority, self.priority_class, self.time_limit, self.labels)
        )
