"""How waits and rho are spread: which part of the groups has at most so much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simulation.measures.finish_time import UNFAIR_ABOVE
from simulation.measures.measures import Measures
from simulation.report.plots.axes import put_log_spans, put_parts
from simulation.report.plots.palette import Look, Palette, looks, mark_every

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What starts at once is drawn at the edge of a scale that has no zero.
_LEAST_WAIT = 1.0


def draw_waits(axes: Axes, palette: Palette, measures: Sequence[Measures]) -> None:
    for number, (each, look) in enumerate(zip(measures, looks(len(measures), palette), strict=True)):
        waits = [None if wait is None else max(wait, _LEAST_WAIT) for wait in each.wait_quantiles]
        _draw(axes, waits, look, label=each.policy, number=number)
    axes.set_xscale("log")
    axes.set_xlim(left=_LEAST_WAIT)
    put_log_spans(axes.xaxis)
    put_parts(axes)
    axes.set_xlabel("wait at most (what starts at once: 1s)")
    axes.set_ylabel("part of the groups")


def draw_rho(axes: Axes, palette: Palette, measures: Sequence[Measures]) -> None:
    for number, (each, look) in enumerate(zip(measures, looks(len(measures), palette), strict=True)):
        _draw(axes, each.rho_quantiles, look, label=each.policy, number=number)
    axes.axvline(UNFAIR_ABOVE, color=palette.ink, linewidth=1)
    axes.annotate(
        f" {UNFAIR_ABOVE}", (UNFAIR_ABOVE, 0.02), color=palette.ink, xycoords=("data", "axes fraction")
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    put_parts(axes)
    axes.set_xlabel("ρ at most: completion time beside that on a private share")
    axes.set_ylabel("part of the groups")


def _draw(axes: Axes, quantiles: Sequence[float | None], look: Look, *, label: str, number: int) -> None:
    """Those that are missing, at the end, leave the line below all."""
    known = [value for value in quantiles if value is not None]
    steps = max(1, len(quantiles) - 1)
    axes.plot(
        known,
        [number / steps for number in range(len(known))],
        drawstyle="steps-post",
        color=look.colour,
        linewidth=1.7,
        dashes=look.dashes or (None, None),
        marker=look.mark,
        markevery=mark_every(number),
        markersize=4.5,
        label=label,
    )
