"""What was held, what waited and how the free GPUs lay, over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from simulation.measures.measures import Measures
from simulation.measures.usage import Curve
from simulation.report.plots.axes import put_counts, put_parts, unit_of
from simulation.report.plots.palette import Palette, looks, mark_every

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_utilisation(axes: Axes, palette: Palette, measures: Sequence[Measures]) -> None:
    _draw(axes, palette, measures, lambda curve: curve.utilisation)
    put_parts(axes)
    axes.set_ylabel("GPUs held, of those up")


def draw_fragmentation(axes: Axes, palette: Palette, measures: Sequence[Measures]) -> None:
    _draw(axes, palette, measures, lambda curve: curve.fragmentation)
    put_parts(axes)
    axes.set_ylabel("free GPUs on partly held nodes")


def draw_waiting(axes: Axes, palette: Palette, measures: Sequence[Measures]) -> None:
    _draw(axes, palette, measures, lambda curve: curve.waiting_gpus)
    axes.set_ylim(bottom=0)
    put_counts(axes.yaxis)
    axes.set_ylabel("GPUs that waiting groups ask for")


def _draw(
    axes: Axes,
    palette: Palette,
    measures: Sequence[Measures],
    values_of: Callable[[Curve], tuple[float, ...]],
) -> None:
    """Means in spans of time, and a line where nothing more is submitted."""
    size, unit = unit_of(max((each.curve.at[-1] for each in measures if each.curve.at), default=0.0))
    for number, (each, look) in enumerate(zip(measures, looks(len(measures), palette), strict=True)):
        axes.plot(
            [at / size for at in each.curve.at],
            values_of(each.curve),
            color=look.colour,
            linewidth=1.4,
            dashes=look.dashes or (None, None),
            marker=look.mark,
            markevery=mark_every(number),
            markersize=4,
            label=each.policy,
        )
    end = max(each.usage.window_seconds for each in measures) / size
    axes.axvline(end, color=palette.ink, linewidth=0.9)
    axes.annotate(
        "last submission ",
        (end, 1.0),
        xycoords=("data", "axes fraction"),
        ha="right",
        va="bottom",
        fontsize=8,
        color=palette.ink,
    )
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{unit} since the first submission")
