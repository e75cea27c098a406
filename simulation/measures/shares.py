"""Jain's index over what tenants got of what they were entitled to, hour by hour."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulation.measures.intervals import is_covered, means_between
from simulation.measures.table import Flags, Floats, Table
from simulation.measures.waits import pending_intervals

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class Jain:
    """`index` is the mean over the `hours` in which at least two tenants are compared; None without any.

    An hour compares the tenants that had a feasible group pending for the whole of it, by
    x = use / min(share, demand), each the mean GPUs of the hour: what they held, what they are entitled to,
    and what they held and waited for. The index is (Σx)² / (n · Σx²): 1 if all got the same part.
    """

    index: float | None
    least: float | None
    hours: int
    tenants: int


def jain_of(table: Table) -> Jain:
    parts, is_compared = parts_by_hour(table)
    indexes = jain_by_hour(parts, is_compared)
    known = indexes[~np.isnan(indexes)]
    tenants = int(is_compared[:, is_compared.sum(axis=0) > 1].any(axis=1).sum())
    if not len(known):
        return Jain(index=None, least=None, hours=0, tenants=tenants)
    return Jain(index=float(known.mean()), least=float(known.min()), hours=len(known), tenants=tenants)


def jain_by_hour(parts: Floats, is_compared: Flags) -> Floats:
    """One index for each hour, NaN where fewer than two tenants are compared. Nobody got anything: 1."""
    x = np.where(is_compared, parts, 0.0)
    count = is_compared.sum(axis=0)
    squares = (x**2).sum(axis=0) * count
    index = np.divide(x.sum(axis=0) ** 2, squares, out=np.ones(x.shape[1]), where=squares > 0)
    return np.where(count > 1, index, np.nan)


def parts_by_hour(table: Table) -> tuple[Floats, Flags]:
    """x of each tenant (rows) in each whole hour (columns), and whether it is compared there."""
    points = np.arange(0.0, table.horizon + HOUR_SECONDS, HOUR_SECONDS)
    groups, attempts = table.groups, table.attempts
    row, begin, end = pending_intervals(table)
    feasible = groups.is_feasible[row]
    row, begin, end = row[feasible], begin[feasible], end[feasible]
    shape = (len(table.tenants), len(points) - 1)
    parts, is_compared = np.zeros(shape), np.zeros(shape, dtype=bool)
    for number, share in enumerate(table.shares):
        mine, waits = groups.tenant[attempts.group] == number, groups.tenant[row] == number
        held = means_between(
            points, begin=attempts.begin[mine], end=attempts.end[mine], weight=attempts.gpus[mine]
        )
        asked = means_between(points, begin=begin[waits], end=end[waits], weight=groups.gpus[row[waits]])
        due = np.minimum(share, held + asked)
        is_compared[number] = is_covered(points, begin=begin[waits], end=end[waits]) & (due > 0)
        parts[number] = np.divide(held, due, out=np.zeros_like(held), where=due > 0)
    return parts, is_compared
