"""When groups waited."""

from __future__ import annotations

import numpy as np

from simulation.measures.table import Floats, Groups, Ints, Table


def pending_intervals(table: Table) -> tuple[Ints, Floats, Floats]:
    """When groups waited: their rows, begin and end. Before the first attempt, between attempts, and after
    the last one if it was no end of the group."""
    groups, attempts = table.groups, table.attempts
    order = np.lexsort((attempts.begin, attempts.group))
    row, begin, end = attempts.group[order], attempts.begin[order], attempts.end[order]
    is_first = np.concatenate(([True], row[1:] != row[:-1])) if len(row) else np.zeros(0, dtype=bool)
    before = np.where(is_first, groups.submitted[row], np.concatenate(([0.0], end[:-1]))[: len(row)])
    is_last = np.concatenate((is_first[1:], [True])) if len(row) else is_first
    left = _left_at(groups, table.horizon)
    tail = is_last & (left[row] > end)
    never = np.setdiff1d(np.arange(len(groups)), row)
    rows = np.concatenate((row, row[tail], never))
    begins = np.concatenate((before, end[tail], groups.submitted[never]))
    ends = np.concatenate((begin, left[row[tail]], left[never]))
    some = ends > begins
    return rows[some], begins[some], ends[some]


def _left_at(groups: Groups, horizon: float) -> Floats:
    """When it was no longer there: at the end of all time, if it is there still."""
    return np.where(np.isnan(groups.ended), horizon, groups.ended)
