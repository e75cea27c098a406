"""Sums over intervals of time: exact, and of a million intervals in a second."""

from __future__ import annotations

import numpy as np

from simulation.measures.table import Flags, Floats, Ints


def area_until(points: Floats, *, begin: Floats, end: Floats, weight: Floats | Ints) -> Floats:
    """For each point: the sum, over all intervals, of weight × the part of it that lies before the point."""
    return _ramp(points, begin, weight) - _ramp(points, end, weight)


def _ramp(points: Floats, since: Floats, weight: Floats | Ints) -> Floats:
    """Sum of weight × (point − since) over those that lie before the point."""
    order = np.argsort(since, kind="stable")
    slope = np.concatenate(([0.0], np.cumsum(weight[order], dtype=np.float64)))
    offset = np.concatenate(([0.0], np.cumsum(weight[order] * since[order], dtype=np.float64)))
    before = np.searchsorted(since[order], points, side="right")
    return np.asarray(slope[before] * points - offset[before])


def means_between(points: Floats, *, begin: Floats, end: Floats, weight: Floats | Ints) -> Floats:
    """The mean weight that was there in each span between two neighbouring points."""
    means = np.diff(area_until(points, begin=begin, end=end, weight=weight)) / np.diff(points)
    # What is left of nothing after a difference of large sums.
    return np.where(np.abs(means) < 1e-6, 0.0, means)


def is_covered(points: Floats, *, begin: Floats, end: Floats) -> Flags:
    """Whether some interval is open at every instant of each span between two neighbouring points. One that
    begins when another ends leaves no gap."""
    if not len(begin):
        return np.zeros(len(points) - 1, dtype=bool)
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    is_first = np.concatenate(([True], begin[1:] > reach[:-1]))
    starts = begin[is_first]
    ends = reach[np.concatenate((np.flatnonzero(is_first)[1:] - 1, [len(begin) - 1]))]
    which = np.searchsorted(starts, points[:-1], side="right") - 1
    return np.asarray((which >= 0) & (ends[which] >= points[1:]))
