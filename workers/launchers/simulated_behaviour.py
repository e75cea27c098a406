"""How a simulated cluster treats the members of a group: a test says so by the group's name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Exit(StrEnum):
    """How a member takes being told to stop: as its program says, which is at once unless it says otherwise;
    only when its grace is over; only when an `end` says so, whatever is done to it."""

    AT_ONCE = "at_once"
    AFTER_GRACE = "after_grace"
    WHEN_TOLD = "when_told"


@dataclass(slots=True)
class Behaviour:
    """How the cluster treats the members of one group from now on."""

    refuses: bool = False
    message: str | None = None
    is_ready: bool = True
    exits: Exit = Exit.AT_ONCE


class Behaviours:
    """By group; of whom nothing was said has the default."""

    def __init__(self) -> None:
        self._by_group: dict[str, Behaviour] = {}

    def of(self, group: str) -> Behaviour:
        return self._by_group.get(group) or Behaviour()

    def change(
        self,
        group: str,
        *,
        refuses: bool | None = None,
        message: str | None = None,
        is_ready: bool | None = None,
        exits: Exit | None = None,
    ) -> None:
        """None leaves a thing as it is; the message belongs to `refuses`."""
        behaviour = self._by_group.setdefault(group, Behaviour())
        if refuses is not None:
            behaviour.refuses, behaviour.message = refuses, message
        if exits is not None:
            behaviour.exits = exits
        if is_ready is not None:
            behaviour.is_ready = is_ready
