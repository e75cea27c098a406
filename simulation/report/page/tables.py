"""Tables of the page that the terminal has no room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulation.measures.longest import LongWait
from simulation.measures.measures import Measures
from simulation.measures.spread import Spread
from simulation.measures.usage import Curve
from simulation.measures.waiting import Waiting
from simulation.report import spans
from simulation.report.comparison import Comparison
from simulation.report.rows import Row, Section, row

#: Spans of a curve that are told in words.
_TENTHS = 10


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table of texts; the first cell of a line names it."""

    title: str
    heads: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


def glance_of(comparison: Comparison) -> tuple[Row, ...]:
    """What a choice is made by."""
    measures = comparison.measures
    return (
        row("Mean wait", [each.all.wait.mean for each in measures], spans.span),
        row("99 % wait at most", [each.all.wait.p99 for each in measures], spans.span),
        row("Mean wait, over 8 GPUs", [each.big.wait.mean for each in measures], spans.span),
        row("Mean completion", [each.all.jct.mean for each in measures], spans.span),
        row("Mean slowdown", [each.all.slowdown.mean for each in measures], spans.decimal),
        row("Jain's index", [each.jain.index for each in measures], spans.index, best="most"),
        row("ρ above 1.05", [each.finish_time.unfair for each in measures], spans.percent),
        row("Utilisation", [each.usage.utilisation for each in measures], spans.percent, best="most"),
        row("GPU time lost", [each.giving_way.lost_gpu_seconds for each in measures], spans.hours),
        row("Longest wait", [_longest(each) for each in measures], spans.span),
    )


def _longest(measures: Measures) -> float | None:
    return measures.longest[0].wait_seconds if measures.longest else None


def waiting_grid(
    title: str, measures: Sequence[Measures], parts_of: Callable[[Measures], tuple[Waiting, ...]]
) -> Grid:
    """Every figure of every part, under each policy."""
    heads = (*("part", "policy", "groups", "started"), *_heads("wait"), *_heads("JCT"), *_heads("slowdown"))
    by_name = [{part.name: part for part in parts_of(each)} for each in measures]
    lines = (
        _waiting_line(each.policy, parts[name])
        for name in by_name[0]
        for each, parts in zip(measures, by_name, strict=True)
    )
    return Grid(title=title, heads=heads, lines=tuple(lines))


def _heads(figure: str) -> tuple[str, ...]:
    return tuple(f"{figure} {name}" for name in ("mean", "p50", "p90", "p99"))


def _waiting_line(policy: str, part: Waiting) -> tuple[str, ...]:
    return (
        part.name or "(none)",
        policy,
        spans.count(part.groups),
        spans.count(part.groups - part.never_started),
        *_figures(part.wait, spans.span),
        *_figures(part.jct, spans.span),
        *_figures(part.slowdown, spans.decimal),
    )


def _figures(spread: Spread, say: Callable[[float], str]) -> list[str]:
    values = (spread.mean, spread.p50, spread.p90, spread.p99)
    return ["-" if value is None else say(value) for value in values]


def curve_section(
    title: str,
    measures: Sequence[Measures],
    values_of: Callable[[Curve], tuple[float, ...]],
    say: Callable[[float], str],
) -> Section:
    """Means over tenths of the time that the pictures show; each policy has its own, up to its last start."""
    return Section(
        title=title,
        rows=tuple(
            row(
                f"{100 * number // _TENTHS}-{100 * (number + 1) // _TENTHS} %",
                [_tenth(values_of(each.curve), number) for each in measures],
                say,
                best="",
            )
            for number in range(_TENTHS)
        ),
    )


def _tenth(values: Sequence[float], number: int) -> float | None:
    size = len(values) // _TENTHS
    part = values[number * size : (number + 1) * size]
    return sum(part) / len(part) if part else None


def longest_grid(measures: Measures) -> Grid:
    return Grid(
        title=f"{measures.policy}: the longest waits",
        heads=("group", "tenant", "GPUs", "submitted after", "waited", "", "mostly for"),
        lines=tuple(
            (
                each.name,
                each.tenant or "(none)",
                spans.count(each.gpus),
                spans.span(each.submitted_seconds),
                spans.span(each.wait_seconds),
                "then started" if each.has_started else "never started",
                _mostly(each),
            )
            for each in measures.longest
        ),
    )


def _mostly(wait: LongWait) -> str:
    return ", ".join(f"{code} {spans.span(seconds)}" for code, seconds in wait.seconds_by_code[:3]) or "-"


def history_grid(policy: str, wait: LongWait) -> Grid:
    """Why that group waited, from its submission on."""
    return Grid(
        title=f"{policy}: why {wait.name} waited",
        heads=("from", "until", "for", "reasons, the most binding first"),
        lines=tuple(
            (
                spans.span(each.begin_seconds - wait.submitted_seconds),
                spans.span(each.end_seconds - wait.submitted_seconds),
                spans.span(each.end_seconds - each.begin_seconds),
                ", ".join(each.codes) or "(ran)",
            )
            for each in wait.reasons
        ),
    )
