"""The page of a comparison."""

from __future__ import annotations

from importlib.resources import files
from operator import attrgetter

from jinja2 import Environment, FunctionLoader, StrictUndefined

from simulation.report import spans
from simulation.report.comparison import Comparison
from simulation.report.page.pictures import pictures_of
from simulation.report.page.tables import (
    curve_section,
    glance_of,
    history_grid,
    longest_grid,
    waiting_grid,
)
from simulation.report.rows import sections_of


def page_of(comparison: Comparison) -> str:
    """The same comparison gives the same text. Needs the extra `simulate`."""
    measures = comparison.measures
    environment = Environment(
        loader=FunctionLoader(_read), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "span": spans.span,
        "count": spans.count,
        "hours": spans.hours,
        "decimal": spans.decimal,
        "percent": spans.percent,
    }
    return environment.get_template("page.html.j2").render(
        it=comparison,
        style=_read("page.css"),
        policies=[each.policy for each in measures],
        pictures=pictures_of(measures),
        glance=glance_of(comparison),
        sections={section.title: section for section in sections_of(comparison)},
        sizes=waiting_grid("Everything by size of the gang", measures, attrgetter("by_size")),
        tenants=waiting_grid("Everything by tenant", measures, attrgetter("by_tenant")),
        curves=[
            curve_section("Utilisation", measures, attrgetter("utilisation"), spans.percent),
            curve_section(
                "GPUs that waiting groups ask for", measures, attrgetter("waiting_gpus"), spans.count
            ),
            curve_section("Waiting groups", measures, attrgetter("waiting_groups"), spans.count),
            curve_section("Fragmentation", measures, attrgetter("fragmentation"), spans.percent),
        ],
        longest=[longest_grid(each) for each in measures],
        histories=[history_grid(each.policy, each.longest[0]) for each in measures if each.longest],
        more=[each.longest[0].more for each in measures if each.longest],
    )


def _read(name: str) -> str:
    return files("simulation.report.page").joinpath(name).read_text(encoding="utf-8")
