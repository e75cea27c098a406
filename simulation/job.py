"""What is replayed: a group, when it comes, and how long it would run."""

from __future__ import annotations

from dataclasses import dataclass

from service.admission.world import PendingUnit
from service.domain.dependency import When
from service.domain.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`row` waits from its `submitted_at` on: a gang, or all members of an independent group.

    Each unit ends by itself `runtime_seconds` after it was admitted (None: never), anew with each attempt,
    unless its time limit comes first. Told to stop, it is gone after `stop_seconds`, or its grace if that
    is shorter. Its first `failed_starts` attempts come no further than their start. `is_failing`: it does not
    end well. `after`: the groups that have to end first, and how.
    """

    row: PendingUnit
    shape: Shape
    runtime_seconds: float | None
    stop_seconds: float = 0.0
    failed_starts: int = 0
    is_failing: bool = False
    after: tuple[tuple[int, When], ...] = ()

    @property
    def group_id(self) -> int:
        return self.row.group_id
