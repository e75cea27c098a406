"""What was held of what was up, and how it lay, over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulation.measures.intervals import area_until, means_between
from simulation.measures.table import Floats, Samples, Table

#: A picture of a few hundred points' width shows no more.
_SPANS = 150


@dataclass(frozen=True, kw_only=True)
class Usage:
    """In the arrival window: from the first to the last submission. Parts of 1; None without a window.

    `utilisation`: GPU-seconds held / GPU-seconds up. `fragmentation`: free GPU-seconds on nodes that
    are partly held / all free ones. `useful`: GPU-seconds of use / all that were held at any time. `drained`:
    what was held after the window / all that was held. `waiting_at_end`: groups that waited when it ended.
    """

    window_seconds: float
    utilisation: float | None
    fragmentation: float | None
    useful: float | None
    drained: float | None
    waiting_at_end: int


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Means in spans of equal length; `at` is the middle of each, in seconds from the first submission."""

    at: tuple[float, ...]
    utilisation: tuple[float, ...]
    waiting_gpus: tuple[float, ...]
    waiting_groups: tuple[float, ...]
    fragmentation: tuple[float, ...]


def usage_of(table: Table) -> Usage:
    window = table.last_submission
    utilisation = fragmentation = None
    if window > 0 and len(table.samples.at):
        up, held, torn = _up_held_torn(table, np.array([0.0, window]))
        utilisation = _part(held, up)[0]
        fragmentation = _part(torn, np.maximum(up - held, 0))[0]
    groups = table.groups
    was_served = (groups.started <= window) | (groups.ended <= window)
    return Usage(
        window_seconds=window,
        utilisation=utilisation,
        fragmentation=fragmentation,
        useful=_useful(table),
        drained=_drained(table, window),
        waiting_at_end=int((groups.is_feasible & ~was_served).sum()),
    )


def curve_of(table: Table, *, until: float) -> Curve:
    """From the first submission until then."""
    if until <= 0 or not len(table.samples.at):
        return Curve(at=(), utilisation=(), waiting_gpus=(), waiting_groups=(), fragmentation=())
    points = np.linspace(0.0, until, _SPANS + 1)
    up, held, torn = _up_held_torn(table, points)
    samples = table.samples
    return Curve(
        at=tuple(((points[1:] + points[:-1]) / 2).tolist()),
        utilisation=_part(held, up),
        waiting_gpus=tuple(_means(samples, samples.waiting_gpus, points).tolist()),
        waiting_groups=tuple(_means(samples, samples.waiting_groups, points).tolist()),
        fragmentation=_part(torn, np.maximum(up - held, 0)),
    )


def _up_held_torn(table: Table, points: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean GPUs up, held (exactly, from the attempts), and free in pieces."""
    samples, attempts = table.samples, table.attempts
    return (
        _means(samples, samples.gpus_up, points),
        means_between(points, begin=attempts.begin, end=attempts.end, weight=attempts.gpus),
        _means(samples, samples.torn_gpus, points),
    )


def _means(samples: Samples, values: Floats, points: Floats) -> Floats:
    """The last sample holds for ever."""
    ends = np.append(samples.at[1:], max(float(points[-1]), float(samples.at[-1])))
    return means_between(points, begin=samples.at, end=ends, weight=values)


def _part(of: Floats, whole: Floats) -> tuple[float, ...]:
    return tuple(np.divide(of, whole, out=np.zeros_like(of), where=whole > 0).tolist())


def _drained(table: Table, window: float) -> float | None:
    attempts, held = table.attempts, _held(table)
    if held <= 0:
        return None
    inside = area_until(np.array([window]), begin=attempts.begin, end=attempts.end, weight=attempts.gpus)
    return max(0.0, 1 - float(inside[0]) / held)


def _held(table: Table) -> float:
    attempts = table.attempts
    return float((attempts.gpus * (attempts.end - attempts.begin)).sum())


def _useful(table: Table) -> float | None:
    held = _held(table)
    return 1 - float(table.groups.wasted.sum()) / held if held > 0 else None
