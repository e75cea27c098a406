"""A cluster of research teams, as logs of such clusters look.

- Tenants: the kth submits in proportion to 1/k, so a few are large. Each has users, of whom the kth again
  submits in proportion to 1/k.
- Sizes 1, 2, 4, 8, 16, 32, 64 GPUs with p .687, .03, .134, .124, .017, .006, .002.
- Runtimes lognormal with a median of 4.7 hours and σ 2.15, within 60 s and 60 days: half of the jobs are over
  within hours, a tenth runs for days. Of them 60 % succeed, 25 % fail, 15 % are cancelled.
- Arrivals Poisson, three times as dense at 15:00 as at 3:00 UTC.
- Time limits as people round them; one job in ten has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

from simulation.generator.draws import Lognormal, arrivals, draw_limit, draw_of
from simulation.logs.job import Ending, LoggedJob
from simulation.logs.log import Log

SIZES = {1: 0.687, 2: 0.03, 4: 0.134, 8: 0.124, 16: 0.017, 32: 0.006, 64: 0.002}
RUNTIMES = Lognormal(median=16_800.0, sigma=2.15, least=60.0, most=60 * 86_400.0)
ENDINGS = {Ending.SUCCEEDED: 0.60, Ending.FAILED: 0.25, Ending.CANCELLED: 0.15}
WITHOUT_LIMIT = 0.1
START = datetime(2026, 1, 1, tzinfo=UTC)
_DAY = 86_400.0
#: Of the day, when most is submitted; and how much more than on average.
_BUSIEST, _SWING = 15 / 24, 0.5


def tenants_log(
    seed: int,
    *,
    jobs: int = 5_000,
    tenants: int = 8,
    users: int = 6,
    gpus: int = 512,
    load: float = 0.9,
    start_at: datetime = START,
) -> Log:
    """`users`: of each tenant. `gpus`: of the cluster that the load is for."""
    parts = ("size", "run", "limit", "gap", "who", "end")
    sizes, runtimes, limits, gaps, people, ends = (Random(f"{seed} {part}") for part in parts)
    drawn = [(draw_of(SIZES, sizes), RUNTIMES.draw(runtimes)) for _ in range(jobs)]
    even = arrivals([size * run for size, run in drawn], gaps, gpus=gpus, load=load)
    first = (start_at - start_at.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    of_tenants = {f"team-{number}": 1 / number for number in range(1, tenants + 1)}
    of_users = {number: 1 / number for number in range(1, users + 1)}
    found = []
    for number, at in enumerate(in_daily_rhythm(even, first=first)):
        size, run = drawn[number]
        tenant = draw_of(of_tenants, people)
        limit = draw_limit(run, limits)
        found.append(
            LoggedJob(
                line=number + 2,
                name=str(number),
                submitted_at=start_at + timedelta(seconds=at),
                runtime_seconds=run,
                gpus=size,
                tenant=tenant,
                user=f"{tenant}-user-{draw_of(of_users, people)}",
                time_limit_seconds=None if limits.random() < WITHOUT_LIMIT else limit,
                ending=draw_of(ENDINGS, ends),
            )
        )
    return Log(name=f"tenants-{seed}", jobs=found)


def in_daily_rhythm(even: Sequence[float], *, first: float) -> Iterator[float]:
    """Arrivals of an even rate, moved so that their rate swings with the day. `first`: the second of the day
    from which both count."""
    start = _amount_until(first)
    for at in even:
        yield round(_second_of(start + at) - first, 3)


def _amount_until(second: float) -> float:
    """How much of a day's even seconds the rhythm has spent: the integral of 1 + swing × cos."""
    angle = 2 * math.pi * (second / _DAY - _BUSIEST)
    return second + _SWING * _DAY / (2 * math.pi) * (math.sin(angle) + math.sin(2 * math.pi * _BUSIEST))


def _second_of(amount: float) -> float:
    """The inverse, which grows: halved until it is exact to a thousandth."""
    low, high = amount - _DAY, amount + _DAY
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if _amount_until(middle) < amount else (low, middle)
    return (low + high) / 2
