"""The pictures of a page, each with a sentence for who cannot see it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from simulation.measures.measures import Measures
from simulation.report import spans
from simulation.report.plots.bars import MOST_TENANTS, draw_sizes, draw_tenants
from simulation.report.plots.canvas import draw_svg
from simulation.report.plots.over_time import draw_fragmentation, draw_utilisation, draw_waiting
from simulation.report.plots.palette import DARK, LIGHT, Palette
from simulation.report.plots.spreads import draw_rho, draw_waits
from simulation.report.plots.trade import draw_trade

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Draw = Callable[["Axes", Palette, Sequence[Measures]], None]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """`light` and `dark` are addresses that hold the whole image."""

    title: str
    alt: str
    light: str
    dark: str


def pictures_of(measures: Sequence[Measures]) -> dict[str, Picture]:
    """By the name that the page has for them."""
    return {
        "trade": _picture("Who waits how long", draw_trade, measures, _trade),
        "waits": _picture("Wait", draw_waits, measures, _waits),
        "sizes": _picture("Mean wait by size of the gang", draw_sizes, measures, _sizes),
        "tenants": _picture("Mean wait by tenant", draw_tenants, measures, _tenants),
        "rho": _picture("Finish-time fairness", draw_rho, measures, _rho),
        "utilisation": _picture("Utilisation", draw_utilisation, measures, _utilisation),
        "waiting": _picture("Demand that waits", draw_waiting, measures, _waiting),
        "fragmentation": _picture("Fragmentation", draw_fragmentation, measures, _fragmentation),
    }


def _picture(title: str, draw: Draw, measures: Sequence[Measures], say: Callable[[Measures], str]) -> Picture:
    told = "; ".join(f"{each.policy}: {say(each)}" for each in measures)
    light, dark = (_address(draw_svg(partial(_draw, draw, measures), each)) for each in (LIGHT, DARK))
    return Picture(title=title, alt=f"{title}. {told}.", light=light, dark=dark)


def _draw(draw: Draw, measures: Sequence[Measures], axes: Axes, palette: Palette) -> None:
    draw(axes, palette, measures)


def _address(svg: str) -> str:
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def _span(seconds: float | None) -> str:
    return "none" if seconds is None else spans.span(seconds)


def _percent(part: float | None) -> str:
    return "none" if part is None else spans.percent(part)


def _trade(it: Measures) -> str:
    return f"mean wait {_span(it.all.wait.mean)}, of gangs over 8 GPUs {_span(it.big.wait.mean)}"


def _waits(it: Measures) -> str:
    wait = it.all.wait
    return f"half wait at most {_span(wait.p50)}, 90 % {_span(wait.p90)}, 99 % {_span(wait.p99)}"


def _sizes(it: Measures) -> str:
    return ", ".join(f"{part.name} GPUs {_span(part.wait.mean)}" for part in it.by_size)


def _tenants(it: Measures) -> str:
    return ", ".join(f"{part.name} {_span(part.wait.mean)}" for part in it.by_tenant[:MOST_TENANTS])


def _rho(it: Measures) -> str:
    return f"{_percent(it.finish_time.unfair)} of the groups above 1.05"


def _utilisation(it: Measures) -> str:
    return f"{_percent(it.usage.utilisation)} while groups came"


def _waiting(it: Measures) -> str:
    return f"at most {spans.count(max(it.curve.waiting_gpus, default=0))} GPUs"


def _fragmentation(it: Measures) -> str:
    return f"{_percent(it.usage.fragmentation)} of the free GPUs while groups came"
