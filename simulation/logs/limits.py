"""Time limits as users write them: too long, by a factor that differs from job to job."""

from __future__ import annotations

import random
from dataclasses import replace
from math import ceil

from simulation.logs.log import Log

_HOUR, _DAY = 3600, 86400
#: What people choose among; above a day whole days.
_CHOICES = (_HOUR // 4, _HOUR, 4 * _HOUR, 12 * _HOUR, _DAY)


def with_made_limits(log: Log, factors: tuple[float, float], seed: int) -> Log:
    """The log with a limit for each job: its run time × a factor drawn evenly from the range, rounded up to
    15 minutes, 1, 4, 12 or 24 hours, or whole days. The same seed draws the same; a job is never cut short
    by it."""
    rng = random.Random(seed)
    return replace(
        log,
        jobs=[
            replace(job, time_limit_seconds=rounded_up(job.runtime_seconds * rng.uniform(*factors)))
            for job in log.jobs
        ],
    )


def rounded_up(seconds: float) -> float:
    """To what a user would write."""
    for choice in _CHOICES:
        if seconds <= choice:
            return float(choice)
    return float(ceil(seconds / _DAY) * _DAY)
