"""Several policies tried on one log, one after the other or in processes of their own."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from simulation.logs.log import Log, LogWrong
from simulation.replay.progress import Progress
from simulation.report.comparison import Comparison, NotTaken, Replayed, compare
from simulation.report.facts import facts_of, missing_of
from simulation.trial.trial import Question, Trial, load_log, run_trial


@dataclass(frozen=True, kw_only=True)
class Watcher:
    """Who wants to know how far it is: told of the number of jobs, unless nothing is told between begin and
    end, of progress under a policy, and of its end."""

    begin: Callable[[int], None]
    progress: Callable[[str, Progress], None]
    done: Callable[[str], None]


def run_contest(
    question: Question, policies: Sequence[str], watcher: Watcher, *, processes: int = 1
) -> Comparison:
    """The policies in the order in which they are named. Raises LogWrong, SiteWrong or NothingToReplay."""
    log = load_log(question)
    if not log.jobs:
        raise LogWrong(f"{question.log}: no row of it can be replayed\n{told_left_out(log)}".rstrip())
    facts = facts_of(log)
    if processes > 1 and len(policies) > 1:
        trials = _in_processes(question, policies, watcher, processes)
    else:
        watcher.begin(len(log.jobs))
        trials = [_watched(question, policy, log, watcher) for policy in policies]
    trials = _told_apart(trials)
    return compare(
        facts,
        _replayed(question, trials[0]),
        [each.measures for each in trials],
        not_taken=[
            NotTaken(policy=each.measures.policy, rows=missing_of(each.left_out))
            for each in trials
            if each.left_out
        ],
    )


def _told_apart(trials: Sequence[Trial]) -> list[Trial]:
    """Files of one name in several folders have a number behind it from the second on."""
    seen: Counter[str] = Counter()
    apart = []
    for trial in trials:
        name = trial.measures.policy
        seen[name] += 1
        told = name if seen[name] == 1 else f"{name} ({seen[name]})"
        apart.append(replace(trial, measures=replace(trial.measures, policy=told)))
    return apart


def _replayed(question: Question, trial: Trial) -> Replayed:
    return Replayed(
        site=question.cluster.name,
        nodes=trial.nodes,
        gpus=trial.gpus,
        layout=question.spread.value,
        wrong_limits=question.wrong_limits,
        seed=question.seed,
        outages=trial.outages,
    )


def told_left_out(log: Log) -> str:
    return "\n".join(str(reason) for reason in log.left_out)


def _watched(question: Question, policy: str, log: Log, watcher: Watcher) -> Trial:
    trial = run_trial(question, policy, log, progress=lambda reached: watcher.progress(policy, reached))
    watcher.done(policy)
    return trial


def _in_processes(
    question: Question, policies: Sequence[str], watcher: Watcher, processes: int
) -> list[Trial]:
    """Each reads the log anew: that takes less than to hand it over."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(policies)), mp_context=context) as pool:
        pending = [pool.submit(_alone, question, policy) for policy in policies]
        trials = []
        for policy, each in zip(policies, pending, strict=True):
            trials.append(each.result())
            watcher.done(policy)
        return trials


def _alone(question: Question, policy: str) -> Trial:
    return run_trial(question, policy, load_log(question))
