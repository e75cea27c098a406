"""What a log holds, as far as it bears on what may be concluded from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from simulation.logs.job import Ending, LoggedJob
from simulation.logs.log import Log, Reason
from simulation.measures.spread import Spread, spread_of
from simulation.measures.table import Floats
from simulation.measures.waiting import BIG_GPUS

_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True, kw_only=True)
class Missing:
    """So many rows were left out, the first of them at `where`."""

    text: str
    count: int
    where: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """`jobs` can be replayed. `arrival_seconds`: from the first submission to the last. `with_limit`,
    `with_start`: how many say that. `logged_wait`: of those that say when they started. `longest_seconds`:
    the longest run; `at_longest` jobs ran exactly so long. `runtime_step`: 3600, 60 or 1 seconds, of which
    all run times are multiples; 0: of none."""

    name: str
    jobs: int
    left_out: tuple[Missing, ...]
    said: tuple[str, ...]
    arrival_seconds: float
    gpu_seconds: float
    most_gpus: int
    big: int
    tenants: int
    with_limit: int
    with_start: int
    cut_short: int
    logged_wait: Spread
    longest_seconds: float
    at_longest: int
    runtime_step: int

    @property
    def left_out_count(self) -> int:
        return sum(each.count for each in self.left_out)


def facts_of(log: Log) -> Facts:
    """Of a log with at least one job."""
    jobs = log.jobs
    ran = np.array([job.runtime_seconds for job in jobs])
    gpus = np.array([job.gpus for job in jobs])
    longest = float(ran.max(initial=0))
    return Facts(
        name=log.name,
        jobs=len(jobs),
        left_out=missing_of(log.left_out),
        said=tuple(log.warnings),
        arrival_seconds=(jobs[-1].submitted_at - jobs[0].submitted_at).total_seconds() if jobs else 0.0,
        gpu_seconds=float((ran * gpus).sum()),
        most_gpus=int(gpus.max(initial=0)),
        big=int((gpus >= BIG_GPUS).sum()),
        tenants=len({job.tenant for job in jobs}),
        with_limit=sum(job.time_limit_seconds is not None for job in jobs),
        with_start=sum(job.started_at is not None for job in jobs),
        cut_short=sum(_is_cut_short(job) for job in jobs),
        logged_wait=spread_of(_logged_waits(jobs)),
        longest_seconds=longest,
        at_longest=int((ran == longest).sum()),
        runtime_step=_step(ran),
    )


def missing_of(reasons: Iterable[Reason]) -> tuple[Missing, ...]:
    return tuple(
        Missing(text=each.text, count=each.count, where=_place(each.line, each.column)) for each in reasons
    )


def _place(line: int, column: str) -> str:
    return f"line {line}" + (f", column {column}" if column else "")


def _is_cut_short(job: LoggedJob) -> bool:
    return job.ending in {Ending.TIMED_OUT, Ending.NODE_FAILED, Ending.CANCELLED} and job.runtime_seconds > 0


def _logged_waits(jobs: Sequence[LoggedJob]) -> Floats:
    return np.array(
        [(job.started_at - job.submitted_at).total_seconds() for job in jobs if job.started_at is not None],
        dtype=np.float64,
    )


def _step(ran: Floats) -> int:
    some = ran[ran > 0]
    return next((step for step in (_HOUR, _MINUTE, 1) if len(some) and not (some % step).any()), 0)
