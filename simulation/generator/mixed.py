"""Gangs of many sizes on one pool, without tenants.

Sizes 1, 2, 4, 8, 16, 32, 64 GPUs with p .58, .10, .10, .12, .05, .03, .02; runtimes lognormal (median 600 s,
σ 1.8) within 30 s and 24 h, whatever the size; time limits as people round them; Poisson arrivals.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from simulation.generator.draws import Lognormal, arrivals, draw_limit, draw_of
from simulation.logs.job import Ending, LoggedJob
from simulation.logs.log import Log

SIZES = {1: 0.58, 2: 0.10, 4: 0.10, 8: 0.12, 16: 0.05, 32: 0.03, 64: 0.02}
RUNTIMES = Lognormal(median=600.0, sigma=1.8, least=30.0, most=86_400.0)
START = datetime(2026, 1, 1, tzinfo=UTC)


def mixed_log(
    seed: int, *, jobs: int = 15_000, gpus: int = 512, load: float = 0.9, start_at: datetime = START
) -> Log:
    """`gpus`: of the cluster that the load is for. Each part of chance has a generator of its own, so more
    jobs begin like fewer."""
    sizes, runtimes, limits, gaps = (Random(f"{seed} {part}") for part in ("size", "run", "limit", "gap"))
    drawn = [(draw_of(SIZES, sizes), RUNTIMES.draw(runtimes)) for _ in range(jobs)]
    at = arrivals([size * run for size, run in drawn], gaps, gpus=gpus, load=load)
    return Log(
        name=f"mixed-{seed}",
        jobs=[
            LoggedJob(
                line=number + 2,
                name=str(number),
                submitted_at=start_at + timedelta(seconds=at[number]),
                runtime_seconds=run,
                gpus=size,
                time_limit_seconds=draw_limit(run, limits),
                ending=Ending.SUCCEEDED,
            )
            for number, (size, run) in enumerate(drawn)
        ],
    )
