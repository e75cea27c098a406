"""Small texts: durations, ranges, log lines, exit codes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from service.cli import exits
from service.cli.commands.inventory import ranges
from service.cli.livelog import short_line
from service.cli.printer import plain
from service.cli.spans import between, clock_time, instant, number, span

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.4, "0s"),
        (59.6, "1m"),
        (61, "1m 1s"),
        (3600, "1h"),
        (3605, "1h"),
        (7325, "2h 2m"),
        (90_061, "1d 1h"),
        (-5, "0s"),
    ],
)
def test_a_span_shows_its_two_largest_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_span_that_is_not_known_is_empty() -> None:
    assert between(None, NOON) == ""
    assert between(NOON, NOON + timedelta(seconds=70)) == "1m 10s"


def test_instants_for_programs_and_for_people() -> None:
    assert instant(NOON) == "2026-03-04T12:00:00+00:00"
    assert instant(None) == ""
    assert "2026-03-04" not in clock_time(NOON, today=NOON)
    assert "2026-03-04" in clock_time(NOON, today=NOON + timedelta(days=2))


@pytest.mark.parametrize(("amount", "text"), [(8.0, "8"), (0.5, "0.5"), (1_048_576.0, "1048576")])
def test_numbers_have_no_needless_fraction(amount: float, text: str) -> None:
    assert number(amount) == text


@pytest.mark.parametrize(
    ("numbers", "text"), [([], "-"), ([3], "3"), ([0, 1, 2, 5, 7, 8], "0-2,5,7-8"), ([2, 1], "1-2")]
)
def test_devices_are_shown_as_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


def test_what_would_move_the_cursor_is_taken_out() -> None:
    assert plain("a\x1b[2Jb\tc\nd") == "a [2Jb c d"


def test_a_log_line_is_short() -> None:
    line = json.dumps(
        {"timestamp": "2026-03-04T12:00:00Z", "level": "info", "event": "launched", "members": 6}
    )
    shown = short_line("dispatcher", line)
    assert shown is not None
    text, style = shown
    assert text.endswith("dispatcher launched  members=6")
    assert style == ""


def test_a_warning_stands_out_and_an_exception_is_one_line() -> None:
    fields = {"level": "error", "event": "failed", "exception": "Traceback ...\n  File x\nValueError: no"}
    shown = short_line("worker", json.dumps(fields))
    assert shown is not None
    assert shown[0].endswith("failed  ValueError: no")
    assert shown[1] == "red"


@pytest.mark.parametrize(
    "line", ['{"level": "debug", "event": "x"}', "", "  ", "Traceback (most recent", "  File x"]
)
def test_what_is_of_no_use_is_not_shown(line: str) -> None:
    assert short_line("api", line) is None


def test_a_line_that_is_no_json_is_shown_as_it_is() -> None:
    assert short_line("api", "ValueError: x") == (f"{'':8} {'api':<10} ValueError: x", "dim")


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, 4), (403, 4), (404, 5), (400, 6), (409, 6), (422, 6), (429, 6), (500, 7), (503, 3)],
)
def test_each_class_of_answer_has_its_exit_code(status: int, code: int) -> None:
    assert exits.of_status(status) == code


def test_every_exit_code_is_explained() -> None:
    codes = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert codes == set(exits.MEANINGS)
