"""What each policy gives to whom: the mean wait of all beside that of the big gangs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simulation.measures.measures import Measures
from simulation.report.plots.axes import unit_of
from simulation.report.plots.palette import Palette, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_trade(axes: Axes, palette: Palette, measures: Sequence[Measures]) -> None:
    """Towards the lower left is better for both. Only of policies under which both started."""
    size, unit = unit_of(max((each.all.wait.mean or 0.0) for each in measures))
    big_size, big_unit = unit_of(max((each.big.wait.mean or 0.0) for each in measures))
    for each, look in zip(measures, looks(len(measures), palette), strict=True):
        if each.all.wait.mean is not None and each.big.wait.mean is not None:
            axes.plot(
                [each.all.wait.mean / size],
                [each.big.wait.mean / big_size],
                linestyle="none",
                marker=look.mark,
                markersize=9,
                color=look.colour,
                markeredgecolor=palette.ink,
                label=each.policy,
            )
    axes.margins(0.12)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"mean wait of all groups, {unit}")
    axes.set_ylabel(f"mean wait of gangs over 8 GPUs, {big_unit}")
