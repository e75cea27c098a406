"""Comparisons of made outcomes: what a report is drawn from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta

from simulation.logs.job import LoggedJob
from simulation.logs.log import LeftOut, Log
from simulation.measures.measures import measure
from simulation.outcome.outcome import History
from simulation.report.comparison import Comparison, Replayed, compare
from simulation.report.facts import facts_of
from tests.simulation.outcomes import START_AT, Run, outcome

SHARES = {"nlp": 32.0, "vision": 32.0}


def made_log(jobs: Sequence[LoggedJob], *, name: str = "made.csv", left_out: LeftOut | None = None) -> Log:
    return Log(name=name, jobs=jobs, left_out=left_out or LeftOut())


def made_job(
    number: int = 1, *, at: float = 0.0, runtime: float = 100.0, gpus: int = 1, **rest: object
) -> LoggedJob:
    return LoggedJob(
        line=number + 1,
        name=f"job-{number}",
        submitted_at=START_AT + timedelta(seconds=at),
        runtime_seconds=runtime,
        gpus=gpus,
        **rest,  # type: ignore[arg-type]
    )


def made_jobs(count: int = 150, seed: int = 5) -> list[LoggedJob]:
    rng, at, jobs = random.Random(seed), 0.0, list[LoggedJob]()
    for number in range(count):
        at += rng.expovariate(1 / 200)
        jobs.append(
            made_job(
                number,
                at=at,
                runtime=rng.lognormvariate(7, 1.2),
                gpus=rng.choice((1, 1, 1, 2, 4, 8, 16)),
                tenant=rng.choice(("nlp", "vision")),
            )
        )
    return jobs


def made_comparison(
    policies: Sequence[str] = ("fifo", "easy <&>"), *, left_out: LeftOut | None = None
) -> Comparison:
    """Nobody is planned for: each waits a while that is drawn."""
    jobs = made_jobs()
    measures = []
    for seed, policy in enumerate(policies):
        rng = random.Random(seed)
        runs = [_run(job, rng.choice((0.0, rng.expovariate(1 / 3000)))) for job in jobs]
        number = max(range(len(runs)), key=lambda each: runs[each].held[0][0] - runs[each].at)
        history = History(number=number, reasons=((runs[number].at, ("WaitingForTurn", "InsufficientGpus")),))
        measures.append(measure(outcome(runs, up=64, histories=[history], policy=policy), SHARES))
    replayed = Replayed(
        site="cluster.yaml", nodes=8, gpus=64, layout="node", wrong_limits=None, seed=1, outages=0
    )
    return compare(facts_of(made_log(jobs, left_out=left_out)), replayed, measures)


def _run(job: LoggedJob, wait: float) -> Run:
    at = (job.submitted_at - START_AT).total_seconds()
    return Run(at=at, gpus=job.gpus, tenant=job.tenant, held=[(at + wait, at + wait + job.runtime_seconds)])
