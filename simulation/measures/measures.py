"""Everything that is told of one replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simulation.measures.bounds import Bounds, bounds_of
from simulation.measures.finish_time import FinishTime, finish_time_of, rho_of
from simulation.measures.giving_way import GivingWay, giving_way_of
from simulation.measures.longest import LongWait, longest_of
from simulation.measures.quantiles import quantiles_of
from simulation.measures.shares import Jain, jain_of
from simulation.measures.table import Ints, table_of
from simulation.measures.usage import Curve, Usage, curve_of, usage_of
from simulation.measures.waiting import (
    Waiting,
    waiting_by_size,
    waiting_by_tenant,
    waiting_of_all,
    waiting_of_big,
)
from simulation.outcome.group import Fate
from simulation.outcome.outcome import Outcome


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Of one policy. `fates`: how many groups ended how, and `never` those that did
    not start. `big`: gangs of more than 8 GPUs. `cycles`: how
    often the planner ran. `wait_quantiles`, `rho_quantiles`: see `quantiles_of`."""

    policy: str
    groups: int
    fates: Mapping[str, int]
    never: Mapping[str, int]
    capacity_gpus: float
    all: Waiting
    big: Waiting
    by_size: tuple[Waiting, ...]
    by_tenant: tuple[Waiting, ...]
    jain: Jain
    finish_time: FinishTime
    usage: Usage
    giving_way: GivingWay
    bounds: Bounds
    longest: tuple[LongWait, ...]
    cycles: int
    curve: Curve
    wait_quantiles: tuple[float | None, ...]
    rho_quantiles: tuple[float | None, ...]


def measure(
    outcome: Outcome, shares: Mapping[str, float], *, name_of: Callable[[int], str] = "#{}".format
) -> Measures:
    """`shares`: see `table_of`. `name_of`: what the log calls a group of that number."""
    table = table_of(outcome, shares)
    groups, rho = table.groups, rho_of(table)
    return Measures(
        policy=outcome.policy,
        groups=len(groups),
        fates=_counted(groups.fate),
        never=_counted(groups.fate[~groups.has_started]),
        capacity_gpus=table.capacity,
        all=waiting_of_all(groups),
        big=waiting_of_big(groups),
        by_size=waiting_by_size(groups),
        by_tenant=waiting_by_tenant(table),
        jain=jain_of(table),
        finish_time=finish_time_of(rho),
        usage=usage_of(table),
        giving_way=giving_way_of(table),
        bounds=bounds_of(table),
        longest=longest_of(outcome, table, name_of),
        cycles=outcome.cycles,
        curve=curve_of(table, until=max(table.last_submission, table.last_start)),
        wait_quantiles=quantiles_of(groups.wait, missing=int((~groups.has_started).sum())),
        rho_quantiles=quantiles_of(rho),
    )


def _counted(fates: Ints) -> dict[str, int]:
    counts = Counter(fates.tolist())
    return {fate.name.lower(): counts[fate] for fate in Fate if counts[fate]}
