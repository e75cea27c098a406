"""Whether anybody waited longer than what always holds allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulation.measures.table import Floats, Table
from simulation.measures.waits import pending_intervals

#: Instants are kept to the microsecond.
_SLACK_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """`bounded`: groups whose guard ran out and who have a bound; `beyond`: those that waited longer."""

    bounded: int
    beyond: int


def bounds_of(table: Table) -> Bounds:
    bound = table.groups.bound
    has_bound = ~np.isnan(bound)
    return Bounds(
        bounded=int(has_bound.sum()),
        beyond=int((has_bound & (_last_wait(table) > bound + _SLACK_SECONDS)).sum()),
    )


def _last_wait(table: Table) -> Floats:
    """The last span in which each group waited."""
    row, begin, end = pending_intervals(table)
    waits = np.zeros(len(table.groups))
    order = np.argsort(begin, kind="stable")
    # Of several of one row the last one stays.
    waits[row[order]] = (end - begin)[order]
    return waits
