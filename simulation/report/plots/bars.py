"""Mean waits of parts: sizes of gangs, tenants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from simulation.measures.measures import Measures
from simulation.measures.waiting import Waiting
from simulation.report.plots.axes import unit_of
from simulation.report.plots.palette import Palette, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: More bars than these cannot be told apart.
MOST_TENANTS = 8
_GROUP_WIDTH = 0.82


def draw_sizes(axes: Axes, palette: Palette, measures: Sequence[Measures]) -> None:
    names = [each.name for each in measures[0].by_size]
    _draw(axes, palette, measures, names, lambda each: each.by_size)
    axes.set_xlabel("GPUs of the gang")


def draw_tenants(axes: Axes, palette: Palette, measures: Sequence[Measures]) -> None:
    names = [each.name for each in measures[0].by_tenant][:MOST_TENANTS]
    _draw(axes, palette, measures, names, lambda each: each.by_tenant)
    axes.set_xlabel("tenant, the one with the most GPU time first")


def _draw(
    axes: Axes,
    palette: Palette,
    measures: Sequence[Measures],
    names: Sequence[str],
    parts_of: Callable[[Measures], tuple[Waiting, ...]],
) -> None:
    waits = [{part.name: part.wait.mean or 0.0 for part in parts_of(each)} for each in measures]
    size, unit = unit_of(max((wait for each in waits for wait in each.values()), default=0.0))
    width = _GROUP_WIDTH / len(measures)
    for number, (each, look) in enumerate(zip(measures, looks(len(measures), palette), strict=True)):
        axes.bar(
            [place - _GROUP_WIDTH / 2 + (number + 0.5) * width for place in range(len(names))],
            [waits[number][name] / size for name in names],
            width=width,
            color=look.colour,
            edgecolor=palette.ground,
            hatch=look.hatch,
            label=each.policy,
        )
    axes.set_xticks(range(len(names)), [_short(name) for name in names])
    axes.grid(visible=False, axis="x")
    axes.set_ylabel(f"mean wait, {unit}")


def _short(name: str) -> str:
    return (name if len(name) <= 9 else f"{name[:8]}…") or "(none)"
