"""All that a replay leaves behind."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from math import isnan

from simulation.outcome.columns import Attempts, Evictions, Groups, Ints, Samples
from simulation.outcome.group import Fate, GroupOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Why one of the groups that waited longest did so: from each instant (seconds since the first
    submission) on for these reasons, most binding first, as codes on the wire; none while it ran."""

    number: int
    reasons: tuple[tuple[float, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`start_at`: the first submission, from which all seconds count. `end_at`: seconds of the last thing
    that happened. `cpu_seconds`: what the replay took. `group_ids`: by number the id of the
    group, which is its position in the log, from 1; whoever was left out there has no number."""

    site: str
    policy: str
    start_at: datetime
    end_at: float
    tenants: tuple[str, ...]
    groups: Groups
    attempts: Attempts
    samples: Samples
    evictions: Evictions
    histories: tuple[History, ...]
    cycles: int
    cpu_seconds: float
    group_ids: Ints = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.groups.gpus)

    def __iter__(self) -> Iterator[GroupOutcome]:
        return (self.group(number) for number in range(len(self)))

    def group(self, number: int) -> GroupOutcome:
        groups = self.groups
        return GroupOutcome(
            number=number,
            tenant=self.tenants[groups.tenant[number]],
            gpus=int(groups.gpus[number]),
            submitted_at=float(groups.submitted_at[number]),
            first_started_at=_or_none(groups.first_started_at[number]),
            last_started_at=_or_none(groups.last_started_at[number]),
            ended_at=_or_none(groups.ended_at[number]),
            ran_seconds=float(groups.ran_seconds[number]),
            evictions=int(groups.evictions[number]),
            wasted_gpu_seconds=float(groups.wasted_gpu_seconds[number]),
            fate=Fate(int(groups.fate[number])),
            time_limit_seconds=_or_none(groups.time_limit_seconds[number]),
            bound_seconds=_or_none(groups.bound_seconds[number]),
        )


def _or_none(value: float) -> float | None:
    return None if isnan(value) else float(value)
