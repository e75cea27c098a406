"""Pictures of what was measured: `python -m bench.page.charts` draws those of every stored result anew."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from bench.results import FOLDER, Chart, read_stored

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Of the text that the picture stands in; legible on a light and on a dark page.
_INK, _FAINT = "#333333", "#d8d8d8"
#: Lines differ in mark, dash and brightness as well, so that they can be told apart without colour.
_COLOURS = ("#0b3c5d", "#c4570a", "#4f9d69", "#8a3fa0", "#b3272d")
_MARKS = ("o", "s", "^", "D", "v")
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (8, 2)))
_FACES = (None, "white", None, "white", None)
_PANEL_INCHES = (4.9, 3.9)
_PANELS_OF_ROW = 2


def draw_all(folder: Path = FOLDER) -> list[Path]:
    """One picture, beside its file, for each result in `folder` that has charts."""
    return [
        draw(each.result.charts, folder / f"{each.result.name}.svg")
        for each in read_stored(folder)
        if each.result.charts
    ]


def draw(charts: list[Chart], path: Path) -> Path:
    """Two in a row, in the format of the path's ending; charts of one measure share their scale. The same
    charts give the same bytes."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "muster", "svg.fonttype": "none", "font.size": 10})
    from matplotlib import pyplot as plt

    width, height = _PANEL_INCHES
    rows = math.ceil(len(charts) / _PANELS_OF_ROW)
    columns = min(len(charts), _PANELS_OF_ROW)
    figure, panels = plt.subplots(
        rows,
        columns,
        figsize=(width * columns, height * rows),
        squeeze=False,
        sharey=len({(chart.y_label, chart.unit) for chart in charts}) == 1,
        layout="constrained",
    )
    for axes in panels.flat[len(charts) :]:
        axes.set_axis_off()
    for axes, chart in zip(panels.flat, charts, strict=False):
        _draw_chart(axes, chart)
    metadata = {"Date": None, "Creator": None} if path.suffix == ".svg" else {}
    figure.savefig(path, facecolor="white", dpi=110, metadata=metadata)
    plt.close(figure)
    return path


def _draw_chart(axes: Axes, chart: Chart) -> None:
    """Both scales are logarithmic, so that lines that cost in proportion have the same slope."""
    for index, line in enumerate(chart.lines):
        xs, ys = zip(*line.points, strict=True)
        axes.plot(
            xs,
            ys,
            color=_COLOURS[index % len(_COLOURS)],
            marker=_MARKS[index % len(_MARKS)],
            markerfacecolor=_FACES[index % len(_FACES)] or _COLOURS[index % len(_COLOURS)],
            linestyle=_DASHES[index % len(_DASHES)],
            markersize=5.5,
            linewidth=1.6,
            label=line.name,
        )
    if chart.at_most is not None:
        axes.axhline(chart.at_most, color=_INK, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"limit {chart.at_most:g} {chart.unit} {chart.limit_of}".strip(),
            (0.99, chart.at_most),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8.5,
            color=_INK,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    _label(axes, chart)


def _label(axes: Axes, chart: Chart) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    xs = sorted({x for line in chart.lines for x, _ in line.points})
    axes.set_xticks(xs, [f"{x:,.0f}" for x in xs])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_title(chart.title, fontsize=11, color=_INK, loc="left", pad=24)
    axes.set_xlabel(chart.x_label, color=_INK)
    axes.set_ylabel(", ".join(filter(None, (chart.y_label, chart.unit))), color=_INK)
    axes.tick_params(labelleft=True)
    axes.grid(visible=True, color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(
        frameon=False,
        fontsize=9,
        handletextpad=0.5,
        loc="lower left",
        bbox_to_anchor=(-0.02, 0.99),
        ncols=len(chart.lines),
        columnspacing=1.2,
        handlelength=2.4,
    )


if __name__ == "__main__":
    for drawn in draw_all():
        print(drawn)
