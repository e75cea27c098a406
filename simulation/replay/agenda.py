"""What is going to happen, in the order of its instants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from service.admission.world import Configuration
from simulation.job import Job


@dataclass(frozen=True, slots=True)
class Submit:
    job: Job


@dataclass(frozen=True, slots=True)
class End:
    """A unit's attempt ends by itself, or at its time limit: nothing if it has been evicted before."""

    unit_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt is over before its unit has run, or with its node: it waits again, for a while in vain.
    `is_lost`: nothing, if all of its nodes are up again."""

    unit_id: int
    attempt: int
    is_lost: bool


@dataclass(frozen=True, slots=True)
class Gone:
    """The last member of an evicted unit is gone: it waits again."""

    unit_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """The members that an elastic unit gives up are gone."""

    unit_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Hold:
    """What waits of a group is held, or released."""

    group_id: int
    is_held: bool


@dataclass(frozen=True, slots=True)
class Cancel:
    """What waits of a group is withdrawn."""

    group_id: int


@dataclass(frozen=True, slots=True)
class Configure:
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class Wake:
    """Nothing but that time has passed."""


Happening: TypeAlias = Submit | End | Failed | Gone | Dropped | Hold | Cancel | Configure | Wake


class Agenda:
    """Happenings of one instant come in the order in which they were noted."""

    def __init__(self) -> None:
        self._entries: list[tuple[datetime, int, Happening]] = []
        self._numbers = count()

    def note(self, at: datetime, happening: Happening) -> None:
        heappush(self._entries, (at, next(self._numbers), happening))

    def next_at(self) -> datetime | None:
        """When the next one is due; None if nothing is."""
        return self._entries[0][0] if self._entries else None

    def pop_due(self, now: datetime) -> list[Happening]:
        """Everything until `now`."""
        due: list[Happening] = []
        while self._entries and self._entries[0][0] <= now:
            due.append(heappop(self._entries)[2])
        return due
