"""Axes that carry spans of time and parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_SPANS = ((1, "1s"), (10, "10s"), (60, "1m"), (600, "10m"), (3600, "1h"), (6 * 3600, "6h"), (86400, "1d"))
_DAYS = ((7 * 86400, "1w"), (30 * 86400, "30d"), (180 * 86400, "180d"))


def put_log_spans(axis: Axis) -> None:
    """Marks where people think: a minute, an hour, a day."""
    marks = (*_SPANS, *_DAYS)
    axis.set_major_locator(FixedLocator([seconds for seconds, _ in marks]))
    names = dict(marks)
    axis.set_major_formatter(FuncFormatter(lambda value, _: names.get(round(value), "")))
    axis.set_minor_locator(NullLocator())


def unit_of(most_seconds: float) -> tuple[float, str]:
    """The unit in which a linear axis up to so much is told."""
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if most_seconds >= 2 * size:
            return size, name
    return 1.0, "seconds"


def put_parts(axes: Axes) -> None:
    """From nothing to all, in percent."""
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))


def put_counts(axis: Axis) -> None:
    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
