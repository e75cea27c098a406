"""What a log, or a replay of it, cannot support: said before anybody reads the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulation.measures.measures import Measures
from simulation.report.facts import Facts
from simulation.report.spans import percent, span

#: Below so many groups a 99th percentile is the luck of one of them.
_FEW = 100
_FEW_BIG = 30
#: Rows left out, GPU time after the last submission, groups that waited then: told above these parts.
_LEFT_OUT, _DRAINED, _WAITING = 0.01, 0.2, 0.05
#: So many runs of exactly the longest time look like a cut.
_CUT_JOBS, _CUT_PART = 5, 0.005


def warnings_of(facts: Facts, measures: Sequence[Measures], *, has_made_limits: bool) -> tuple[str, ...]:
    """Sentences, those about the log first."""
    return (
        *facts.said,
        *_of_rows(facts),
        *_of_limits(facts, has_made_limits=has_made_limits),
        *_of_runtimes(facts),
        *_of_sizes(facts),
        *_of_replays(measures),
    )


def _of_rows(facts: Facts) -> Iterator[str]:
    left_out, rows = facts.left_out_count, facts.left_out_count + facts.jobs
    if left_out > _LEFT_OUT * rows:
        yield (
            f"{left_out:,} of {rows:,} rows ({percent(left_out / rows)}) were left out: the load was higher"
            " than what is replayed."
        )
    if not facts.with_start:
        yield "The log does not say when jobs started, so its own waits cannot be compared with these."
    if facts.tenants < 2:
        yield (
            "The log has one tenant: the fairness figures compare that one with itself (ρ is the completion"
            " time beside first come, first served on the whole site)."
        )


def _of_limits(facts: Facts, *, has_made_limits: bool) -> Iterator[str]:
    without = facts.jobs - facts.with_limit
    if has_made_limits:
        yield (
            "Time limits were made from the real run times by a seeded factor; how wrong your users' limits"
            " are is not in the log."
        )
    elif without == facts.jobs:
        yield (
            "No job has a time limit: to the planner each may run for ever, so nothing is backfilled before a"
            " date, and policies that order by it have nothing to order by. --wrong-limits makes limits."
        )
    elif without:
        yield f"{without:,} of {facts.jobs:,} jobs have no time limit; to the planner they may run for ever."


def _of_runtimes(facts: Facts) -> Iterator[str]:
    if facts.at_longest >= _CUT_JOBS and facts.at_longest > _CUT_PART * facts.jobs:
        yield (
            f"{facts.at_longest:,} jobs ran for exactly {span(facts.longest_seconds)}, the longest run time:"
            " it looks cut, and the real load was higher."
        )
    if facts.cut_short:
        yield (
            f"{facts.cut_short:,} jobs were cancelled, timed out or lost their node: how long they would have"
            " run is not in the log, and they end after the same time here."
        )
    if facts.runtime_step >= 60:
        what = "hours" if facts.runtime_step == 3600 else "minutes"
        yield f"Run times are whole {what}: slowdowns of short jobs mean little."
    if facts.longest_seconds > facts.arrival_seconds:
        yield (
            f"The longest job ran for {span(facts.longest_seconds)}, and jobs arrived in"
            f" {span(facts.arrival_seconds)}: the site is never in a steady state, and its use"
            " in that window starts from empty."
        )


def _of_sizes(facts: Facts) -> Iterator[str]:
    if facts.jobs < _FEW:
        yield f"There are {facts.jobs} jobs: a 99th percentile is one of them."
    if not facts.big:
        yield "No job asks for more than 8 GPUs: the log cannot show what a policy does to big gangs."
    elif facts.big < _FEW_BIG:
        yield (
            f"{facts.big} jobs ask for more than 8 GPUs: too few for a sound mean, and single ones decide"
            " what is shown for big gangs."
        )


def _of_replays(measures: Sequence[Measures]) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    for each in measures:
        if each.all.never_started:
            told = f"{each.all.never_started:,} of {each.groups:,} groups never started ({_fates(each)})"
            alike.setdefault(told, []).append(each.policy)
    for told, policies in alike.items():
        yield f"{', '.join(policies)}: {told}; waits are of the others."
    overloaded = [each for each in measures if _is_overloaded(each)]
    if overloaded:
        told = "; ".join(
            f"{each.policy}: {percent(each.usage.drained or 0)}, {each.usage.waiting_at_end:,} groups"
            for each in overloaded
        )
        yield (
            "Much of the GPU time was held after the last submission, with groups that still waited then"
            f" ({told}). Nothing new comes after it, so what came last is served better than it would be, and"
            " waits grow with the length of the log: compare policies, do not read the figures as what users"
            " will see."
        )


def _is_overloaded(measures: Measures) -> bool:
    usage = measures.usage
    return (usage.drained or 0.0) > _DRAINED and usage.waiting_at_end > _WAITING * measures.groups


def _fates(measures: Measures) -> str:
    names = {"never_fits": "the site cannot hold them", "waiting": "still waiting", "cancelled": "withdrawn"}
    told = [f"{count:,} {names[fate]}" for fate, count in measures.never.items() if fate in names]
    return ", ".join(told) or "see the fates"
