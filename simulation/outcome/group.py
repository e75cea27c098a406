"""What became of one group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Fate(IntEnum):
    """How a group ended in the replay; the last three of them have not. `NEVER_FITS`: it would wait for
    ever, for the site could not hold it whole if it were empty."""

    SUCCEEDED = 0
    FAILED = 1
    CANCELLED = 2
    TIMED_OUT = 3
    RUNNING = 4
    WAITING = 5
    NEVER_FITS = 6

    @property
    def has_ended(self) -> bool:
        return self <= Fate.TIMED_OUT


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutcome:
    """`number`: its position among the replayed jobs, from 0. Instants (`..._at`) are seconds since the
    first submission.

    `gpus`: of all of its members. `ran_seconds`: how long its last attempt held its places; what earlier
    ones lost is `wasted_gpu_seconds`, of `evictions` and lost nodes together. `bound_seconds`: by rule 7 of
    what always holds it waits no longer than this, counted from when it came to wait last; None where its
    guard has not run out, or where there is no bound because somebody in its way has no time limit.
    """

    number: int
    tenant: str
    gpus: int
    submitted_at: float
    first_started_at: float | None
    last_started_at: float | None
    ended_at: float | None
    ran_seconds: float
    evictions: int
    wasted_gpu_seconds: float
    fate: Fate
    time_limit_seconds: float | None
    bound_seconds: float | None

    @property
    def wait_seconds(self) -> float | None:
        """From submission to the first start; None if it never started."""
        return None if self.first_started_at is None else self.first_started_at - self.submitted_at
