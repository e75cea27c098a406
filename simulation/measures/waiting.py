"""Wait, job completion time and bounded slowdown: of all, by size of the gang, by tenant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulation.measures.spread import Spread, spread_of
from simulation.measures.table import Flags, Floats, Groups, Table

#: Feitelson and Rudolph's bound: what ran for less counts as having run that long.
TAU_SECONDS = 10.0

#: Name, fewest and most GPUs.
SIZES: tuple[tuple[str, int, float], ...] = (
    ("0", 0, 0),
    ("1", 1, 1),
    ("2-4", 2, 4),
    ("5-8", 5, 8),
    ("9-16", 9, 16),
    ("17-32", 17, 32),
    (">32", 33, np.inf),
)
#: A gang of more GPUs than a usual node has.
BIG_GPUS = 9


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """`groups` were submitted; `never_started` of them did not start. Seconds, but for the slowdown."""

    name: str
    groups: int
    never_started: int
    gpu_seconds: float
    wait: Spread
    jct: Spread
    slowdown: Spread


def slowdown_of(groups: Groups) -> Floats:
    """max(1, completion time / max(run time, tau)): NaN unless it finished."""
    return np.maximum(1.0, groups.jct / np.maximum(groups.ran, TAU_SECONDS))


def waiting_of_all(groups: Groups) -> Waiting:
    return _waiting("all", groups, np.ones(len(groups), dtype=bool))


def waiting_of_big(groups: Groups) -> Waiting:
    return _waiting(f">{BIG_GPUS - 1}", groups, groups.gpus >= BIG_GPUS)


def waiting_by_size(groups: Groups) -> tuple[Waiting, ...]:
    """Of the sizes that occur."""
    chosen = ((name, (groups.gpus >= least) & (groups.gpus <= most)) for name, least, most in SIZES)
    return tuple(_waiting(name, groups, which) for name, which in chosen if which.any())


def waiting_by_tenant(table: Table) -> tuple[Waiting, ...]:
    """The one with the most GPU time first; equals by name."""
    found = [
        _waiting(name, table.groups, table.groups.tenant == number)
        for number, name in enumerate(table.tenants)
    ]
    return tuple(sorted((each for each in found if each.groups), key=lambda it: (-it.gpu_seconds, it.name)))


def _waiting(name: str, groups: Groups, which: Flags) -> Waiting:
    return Waiting(
        name=name,
        groups=int(which.sum()),
        never_started=int((which & ~groups.has_started).sum()),
        gpu_seconds=float(np.nansum(groups.gpus[which] * groups.ran[which])),
        wait=spread_of(groups.wait[which]),
        jct=spread_of(groups.jct[which]),
        slowdown=spread_of(slowdown_of(groups)[which]),
    )
