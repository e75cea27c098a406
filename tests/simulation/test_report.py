"""What is said about a comparison: the table, the page, the file of figures, and the warnings."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from simulation.logs.job import Ending, LoggedJob
from simulation.logs.log import LeftOut
from simulation.measures.measures import Measures, measure
from simulation.report.claims import warnings_of
from simulation.report.comparison import Comparison, to_json
from simulation.report.facts import facts_of
from simulation.report.page.page import page_of
from simulation.report.plots.canvas import draw_svg
from simulation.report.plots.palette import LIGHT
from simulation.report.plots.spreads import draw_waits
from simulation.report.rows import row, sections_of
from simulation.report.spans import decimal, span
from tests.simulation.comparisons import made_comparison, made_job, made_jobs, made_log
from tests.simulation.outcomes import START_AT, Run, outcome


def one_left_out() -> LeftOut:
    left_out = LeftOut()
    left_out.note("a negative <run time>", line=17, column="Elapsed")
    return left_out


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return made_comparison(left_out=one_left_out())


@pytest.fixture(scope="module")
def page(comparison: Comparison) -> str:
    return page_of(comparison)


class Seen(HTMLParser):
    """What a page is made of, and whether its tags close."""

    EMPTY = frozenset({"meta", "link", "img", "source", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def seen(page: str) -> Seen:
    found = Seen()
    found.feed(page)
    found.close()
    return found


def test_every_tag_is_closed(seen: Seen) -> None:
    assert seen.open == []


def test_the_page_needs_nothing_from_outside(seen: Seen, page: str) -> None:
    for tag, attributes in seen.tags:
        assert tag not in {"script", "iframe", "object", "embed"}
        for name in ("src", "href", "srcset"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, name)
    assert not re.search(r"@import|url\(", page)


def test_every_image_says_what_it_shows(seen: Seen) -> None:
    images = [attributes for tag, attributes in seen.tags if tag == "img"]
    assert len(images) == 8
    for attributes in images:
        assert "fifo: " in (attributes["alt"] or "")


def test_names_of_a_log_are_text(page: str) -> None:
    assert "easy &lt;&amp;&gt;" in page
    assert "easy <&>" not in page
    assert "a negative &lt;run time&gt;" in page


def test_the_page_says_what_was_left_out_and_where(page: str) -> None:
    assert "line 17, column Elapsed" in page
    assert "1 row left out" in page


def test_the_same_comparison_gives_the_same_bytes(comparison: Comparison) -> None:
    # Pages are compared where the command is tried.
    assert to_json(made_comparison(left_out=one_left_out())) == to_json(comparison)


def test_more_policies_than_there_are_looks_are_drawn() -> None:
    measures = made_comparison([f"policy-{number}" for number in range(9)]).measures
    drawn = draw_svg(lambda axes, palette: draw_waits(axes, palette, measures), LIGHT)
    assert drawn.startswith("<svg")
    assert drawn == draw_svg(lambda axes, palette: draw_waits(axes, palette, measures), LIGHT)


def test_the_file_has_every_figure_of_every_policy(comparison: Comparison) -> None:
    told = json.loads(to_json(comparison))
    assert [each["policy"] for each in told["measures"]] == ["fifo", "easy <&>"]
    first = told["measures"][0]
    assert first["all"]["wait"]["mean"] == comparison.measures[0].all.wait.mean
    assert {each["name"] for each in first["by_tenant"]} == {"nlp", "vision"}


def test_the_table_has_a_column_for_each_policy(comparison: Comparison) -> None:
    sections = sections_of(comparison)
    rows = [each for section in sections for each in section.rows]
    assert {len(each.texts) for each in rows} == {2}
    wait = next(section for section in sections if section.title == "Wait")
    assert wait.rows[0].values == tuple(each.all.wait.mean for each in comparison.measures)


def test_the_best_is_marked_unless_all_read_alike() -> None:
    assert row("wait", [3.0, 1.0, None], span).best == {1}
    assert row("jain", [0.3, 0.9], decimal, best="most").best == {1}
    assert row("wait", [60.1, 60.2], span).best == frozenset()
    assert row("hours", [1.0, 2.0], decimal, best="").best == frozenset()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "0.2s"),
        (9.96, "10s"),
        (59.94, "60s"),
        (59.96, "1m 00s"),
        (3599.6, "1h 00m"),
        (111722.1, "1d 07h"),
    ],
)
def test_a_span_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


def replayed(*runs: Run, up: int = 8) -> Measures:
    return measure(outcome(runs or [Run(at=0, held=[(0, 1)])], up=up), {})


def warned(jobs: list[LoggedJob], *measures: Measures, has_made_limits: bool = False) -> str:
    left_out = LeftOut()
    return "\n".join(
        warnings_of(facts_of(made_log(jobs, left_out=left_out)), measures, has_made_limits=has_made_limits)
    )


def sound_jobs() -> list[LoggedJob]:
    """A log that supports everything."""
    return [
        made_job(
            number,
            at=number * 600.0,
            runtime=100.5 + number,
            gpus=16 if number % 4 == 0 else 1,
            tenant=f"t{number % 3}",
            time_limit_seconds=7200.0,
            started_at=START_AT,
        )
        for number in range(200)
    ]


def test_nothing_is_said_of_a_log_that_supports_everything() -> None:
    assert warned(sound_jobs(), replayed()) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"time_limit_seconds": None}, "No job has a time limit"),
        ({"started_at": None}, "does not say when jobs started"),
        ({"tenant": "one"}, "The log has one tenant"),
        ({"runtime_seconds": 7200.0}, "Run times are whole hours"),
        ({"runtime_seconds": 172800.0}, "the longest run time: it looks cut"),
        ({"gpus": 8}, "No job asks for more than 8 GPUs"),
        ({"ending": Ending.CANCELLED}, "200 jobs were cancelled, timed out or lost their node"),
        ({"runtime_seconds": 1e6}, "never in a steady state"),
    ],
)
def test_what_a_log_cannot_support_is_said(changed: dict[str, object], said: str) -> None:
    jobs = [replace(job, **changed) for job in sound_jobs()]  # type: ignore[arg-type]
    assert said in warned(jobs, replayed())


def test_made_limits_are_said_to_be_made() -> None:
    assert "made from the real run times" in warned(sound_jobs(), replayed(), has_made_limits=True)


def test_few_jobs_are_said_to_be_few() -> None:
    jobs = sound_jobs()[:50]
    assert "There are 50 jobs" in warned(jobs, replayed())
    assert "13 jobs ask for more than 8 GPUs" in warned(jobs, replayed())


def test_who_never_started_is_told() -> None:
    found = replayed(Run(at=0, held=[(0, 1)]), Run(at=1))
    assert "fifo: 1 of 2 groups never started (1 still waiting)" in warned(sound_jobs(), found)


def test_an_overloaded_site_is_told() -> None:
    found = replayed(*(Run(at=0, gpus=8, held=[(100 * each, 100 * each + 100)]) for each in range(9)))
    assert "held after the last submission" in warned(sound_jobs(), found)
    assert "fifo: 100.0 %, 8 groups" in warned(sound_jobs(), found)


def test_rows_left_out_are_counted() -> None:
    left_out = LeftOut()
    for line in range(10):
        left_out.note("no GPUs", line=line + 2)
    said = warnings_of(facts_of(made_log(made_jobs(), left_out=left_out)), [], has_made_limits=True)
    assert any("10 of 160 rows (6.2 %) were left out" in each for each in said)
