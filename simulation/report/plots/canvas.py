"""One picture: axes in the page's colours, and the text of an SVG that is the same each time."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from simulation.report.plots.palette import Palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES = (5.4, 3.4)
Draw = Callable[["Axes", Palette], None]


def draw_svg(draw: Draw, palette: Palette) -> str:
    """What `draw` puts on the axes, with a legend of what it has labelled above it."""
    # Text becomes outlines: it looks alike wherever the page is opened.
    with mpl.rc_context(
        {
            "svg.hashsalt": "muster",
            "svg.fonttype": "path",
            "font.family": ["DejaVu Sans"],
            "font.size": 9,
            "hatch.linewidth": 0.8,
        }
    ):
        figure = Figure(figsize=_INCHES, layout="constrained", facecolor=palette.ground)
        axes = figure.subplots()
        _dress(axes, palette)
        draw(axes, palette)
        _add_legend(figure, axes, palette)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    # The head names a document type of another host, which nothing needs.
    return re.sub(r"^.*?(?=<svg)", "", text.getvalue(), count=1, flags=re.DOTALL)


def _dress(axes: Axes, palette: Palette) -> None:
    axes.set_facecolor(palette.ground)
    axes.grid(visible=True, color=palette.faint, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=palette.ink, length=3)
    for name in ("x", "y"):
        getattr(axes, f"{name}axis").label.set_color(palette.ink)
    for side, spine in axes.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(palette.ink)


def _add_legend(figure: Figure, axes: Axes, palette: Palette) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles,
            labels,
            loc="outside upper left",
            ncols=min(len(labels), 4),
            frameon=False,
            labelcolor=palette.ink,
            handlelength=2.8,
            columnspacing=1.2,
        )
