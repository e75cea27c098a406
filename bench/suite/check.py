"""The checker: what a run came to, and whether it kept the rules, from PostgreSQL alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Engine

from bench.suite.measures import Measures, read_measures
from bench.suite.rules import broken_rules
from bench.suite.workloads import Workload


@dataclass(frozen=True, slots=True)
class Checked:
    """`broken`: rules that were not kept, in words. Figures of a run with any are worth nothing."""

    measures: Measures
    broken: tuple[str, ...]


def check_run(engine: Engine, workload: Workload, *, has_preemption: bool) -> Checked:
    with engine.connect() as conn:
        broken = list(broken_rules(conn))
        measures = read_measures(conn)
    broken += _not_as_sent(measures, workload, has_preemption=has_preemption)
    return Checked(measures, tuple(broken))


def _not_as_sent(measures: Measures, workload: Workload, *, has_preemption: bool) -> Iterator[str]:
    if measures.groups_by_class != workload.classes():
        yield f"there are {dict(measures.groups_by_class)} groups instead of {dict(workload.classes())}"
    if measures.evictions and not has_preemption:
        yield f"{measures.evictions} evictions where nobody may be evicted"
