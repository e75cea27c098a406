"""What was held of what was up, and how it lay, over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulation.measures.intervals import means_between
from simulation.measures.table import Floats, Samples, Table

#: A picture of a few hundred points' width shows no more.
_SPANS = 200


@dataclass(frozen=True, kw_only=True)
class Usage:
    """In the arrival window: from the first to the last submission. Parts of 1; None without a window.

    `utilisation`: GPU-seconds held / GPU-seconds up. `fragmentation`: free GPU-seconds on nodes that
    are partly held / all free ones. `useful`: GPU-seconds of use / all that were held at any time.
    """

    window_seconds: float
    utilisation: float | None
    fragmentation: float | None
    useful: float | None


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
    useful = _useful(table)
    if window <= 0 or not len(table.samples.at):
        return Usage(window_seconds=window, utilisation=None, fragmentation=None, useful=useful)
    points = np.array([0.0, window])
    up, held, broken = _up_held_broken(table, points)
    return Usage(
        window_seconds=window,
        utilisation=_part(held, up)[0],
        fragmentation=_part(broken, np.maximum(up - held, 0))[0],
        useful=useful,
    )


def curve_of(table: Table, *, until: float) -> Curve:
    """From the first submission until then."""
    if until <= 0 or not len(table.samples.at):
        return Curve(at=(), utilisation=(), waiting_gpus=(), waiting_groups=(), fragmentation=())
    points = np.linspace(0.0, until, _SPANS + 1)
    up, held, broken = _up_held_broken(table, points)
    samples = table.samples
    return Curve(
        at=tuple(((points[1:] + points[:-1]) / 2).tolist()),
        utilisation=_part(held, up),
        waiting_gpus=tuple(_means(samples, samples.waiting_gpus, points).tolist()),
        waiting_groups=tuple(_means(samples, samples.waiting_groups, points).tolist()),
        fragmentation=_part(broken, np.maximum(up - held, 0)),
    )


def _up_held_broken(table: Table, points: Floats) -> tuple[Floats, Floats, Floats]:
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


def _useful(table: Table) -> float | None:
    attempts = table.attempts
    held = float((attempts.gpus * (attempts.end - attempts.begin)).sum())
    return 1 - float(table.groups.wasted.sum()) / held if held > 0 else None
