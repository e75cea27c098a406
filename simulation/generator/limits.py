"""Time limits for a log that has none."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from simulation.generator.draws import draw_limit
from simulation.logs.log import Log


def with_limits(log: Log, seed: int) -> Log:
    """Each job asks for its real time × U(1, 5), rounded up as people round; what the log says of limits is
    dropped. One draw for each job, in the order of the log."""
    draw = Random(seed)
    jobs = [replace(job, time_limit_seconds=draw_limit(job.runtime_seconds, draw)) for job in log.jobs]
    told = f"time limits are made up: the real time × U(1, 5), rounded up, seed {seed}"
    return replace(log, jobs=jobs, warnings=(*log.warnings, told))
