"""What is replayed: a group, when it comes, and how long it would run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from service.admission.world import PendingUnit
from service.domain.dependency import When
from service.domain.lifecycle.facts import Policy as Recovery
from service.domain.shape import Shape
from service.domain.status import Status

#: A log shows one run of a job: one that failed by itself is not started again.
ONE_RUN = Recovery(max_restarts=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`row` waits from its `submitted_at` on: a gang, or all members of an independent group.

    Each unit ends by itself `runtime_seconds` after it was admitted (None: never), anew with each attempt,
    unless its time limit comes first: then as `ends_as`, which is Succeeded, Failed or Cancelled. Told to
    stop, it is gone after `stop_seconds`, or its grace if that is shorter. Its first `failed_starts`
    attempts are refused by the launcher. `after`: the groups that have to end first, and how. If it
    still waits at `withdrawn_at`, it is cancelled then.
    """

    row: PendingUnit
    shape: Shape
    runtime_seconds: float | None
    stop_seconds: float = 0.0
    failed_starts: int = 0
    ends_as: Status = Status.SUCCEEDED
    after: tuple[tuple[int, When], ...] = ()
    tenant: str = ""
    withdrawn_at: datetime | None = None
    recovery: Recovery = ONE_RUN

    @property
    def group_id(self) -> int:
        return self.row.group_id
