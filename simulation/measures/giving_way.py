"""Preemptions, with what they cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulation.measures.table import Table


@dataclass(frozen=True, kw_only=True)
class GivingWay:
    """`evictions` of `groups` different ones, the most of one being `most_of_one`. `lost_gpu_seconds`: what
    was held in vain, by them and on nodes that went down; `lost_part` of all that was held (None: nothing
    was)."""

    evictions: int
    groups: int
    most_of_one: int
    lost_gpu_seconds: float
    lost_part: float | None


def giving_way_of(table: Table) -> GivingWay:
    groups, attempts = table.groups, table.attempts
    held = float((attempts.gpus * (attempts.end - attempts.begin)).sum())
    lost = float(np.nansum(groups.wasted))
    return GivingWay(
        evictions=int(groups.evictions.sum()),
        groups=int((groups.evictions > 0).sum()),
        most_of_one=int(groups.evictions.max(initial=0)),
        lost_gpu_seconds=lost,
        lost_part=lost / held if held > 0 else None,
    )
