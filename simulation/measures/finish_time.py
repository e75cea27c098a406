"""Finish-time fairness: completion time beside that on a private share."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from simulation.measures.spread import Spread, spread_of
from simulation.measures.table import Floats, Table

#: Above it a job counts as treated unfairly (Shockwave, NSDI'23).
UNFAIR_ABOVE = 1.05


@dataclass(frozen=True, kw_only=True)
class FinishTime:
    """ρ of each group that finished: its completion time / the one that it would have on its tenant's private
    share. `unfair`: the part of the groups with ρ above 1.05; None if none finished."""

    rho: Spread
    unfair: float | None


def finish_time_of(rho: Floats) -> FinishTime:
    known = rho[~np.isnan(rho)]
    return FinishTime(rho=spread_of(rho), unfair=float((known > UNFAIR_ABOVE).mean()) if len(known) else None)


def rho_of(table: Table) -> Floats:
    """By group; NaN for those that did not finish. Differences below a second do not make one unfair."""
    groups = table.groups
    alone = np.full(len(groups), np.nan)
    for number, share in enumerate(table.shares):
        mine = np.flatnonzero((groups.tenant == number) & groups.has_finished)
        jobs = zip(
            groups.submitted[mine].tolist(),
            groups.gpus[mine].tolist(),
            groups.ran[mine].tolist(),
            strict=True,
        )
        most = int(groups.gpus[mine].max(initial=0))
        alone[mine] = list(private_completions(jobs, gpus=max(int(share), most)))
    return np.asarray(np.maximum(groups.jct, 1.0) / np.maximum(alone, 1.0))


def private_completions(jobs: Iterable[tuple[float, int, float]], *, gpus: int) -> Iterable[float]:
    """The completion time of each job (submitted, GPUs, run time; by submission) on a pool of so many GPUs
    that nobody else uses: first come, first served, nobody passes, GPUs are counted without nodes."""
    running: list[tuple[float, int]] = []
    free, now = gpus, 0.0
    for submitted, asked, ran in jobs:
        now = max(now, submitted)
        while running and (running[0][0] <= now or free < asked):
            end, given = heapq.heappop(running)
            now, free = max(now, end), free + given
        heapq.heappush(running, (now + ran, asked))
        free -= asked
        yield now + ran - submitted
