"""What is going to happen, in the order of its instants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    """What a unit runs has come to its end: nothing if it was stopped, or started again, before."""

    unit_id: int
    attempt: int
    generation: int


@dataclass(frozen=True, slots=True)
class Refused:
    """An attempt could not be started."""

    unit_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time limit, or the deadline of a seat, may be over."""

    unit_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Gone:
    """The last member of an evicted unit is gone."""

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
class Turn:
    """These nodes are up from now on, or down."""

    node_ids: tuple[int, ...]
    is_up: bool


@dataclass(frozen=True, slots=True)
class Wake:
    """Nothing but that time has passed."""


OfAttempt: TypeAlias = End | Refused | Deadline | Gone | Dropped
Happening: TypeAlias = Submit | OfAttempt | Hold | Cancel | Configure | Turn | Wake


class Agenda:
    """Happenings of one instant come in the order in which they were noted; submissions that are fed come
    before them. Of a feed only the next job is ever in memory."""

    def __init__(self) -> None:
        self._entries: list[tuple[datetime, int, Happening]] = []
        self._numbers = count()
        self._feed: Iterator[Job] = iter(())
        self._next_job: Job | None = None

    def note(self, at: datetime, happening: Happening) -> None:
        heappush(self._entries, (at, next(self._numbers), happening))

    def feed(self, jobs: Iterable[Job]) -> None:
        """Submissions in the order of their instants."""
        self._feed = iter(jobs)
        self._next_job = next(self._feed, None)

    def next_at(self) -> datetime | None:
        """When the next one is due; None if nothing is."""
        noted = self._entries[0][0] if self._entries else None
        if self._next_job is None:
            return noted
        fed = self._next_job.row.submitted_at
        return fed if noted is None or fed < noted else noted

    def pop_due(self, now: datetime) -> list[Happening]:
        """Everything until `now`."""
        due: list[Happening] = []
        while self._next_job is not None and self._next_job.row.submitted_at <= now:
            due.append(Submit(self._next_job))
            self._next_job = next(self._feed, None)
        while self._entries and self._entries[0][0] <= now:
            due.append(heappop(self._entries)[2])
        return due
