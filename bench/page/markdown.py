"""`docs/performance.md`, written from the stored results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.check.stored import Ratios, read_ratios
from bench.check.verdict import MOST, TIMES
from bench.machine import Machine
from bench.page.peers import peers_section
from bench.results import FOLDER, Figure, Stored, read_stored

PAGE = FOLDER.parent.parent / "docs" / "performance.md"

_HEAD = """\
# Performance

Every figure here was measured by a command that you can run, and this page was written by it:

| command | what it does |
|---|---|
| `python -m bench all` | every benchmark, a peer's suite, the quality of policies, and this page |
| `make bench` | what is not long of these; ends with an error if a limit is not kept |
| `make bench-check` | ends with an error if something got slower than is stored, on any machine |
| `make plots` | the plots, from what is stored |

`python -m bench NAME ...` runs some, `--scale 0.1` for a tenth of the time, `--dry` without storing anything.
A run uses servers of its own on unix sockets and 127.0.0.1, and leaves nothing running.

## How to read the figures

- **Absolute numbers are of the one machine that is named with them.** Compare two commits on one machine, or
  ratios that were measured side by side in one run; do not compare milliseconds of two machines.
- The load average says what else the machine did in the minute before. Beyond its cores, times include
  waiting for a core, and high quantiles suffer most.
- PostgreSQL runs with fsync on and Valkey with its append-only file, as `muster up` starts them. A run
  refuses to measure anything else.
- The load generator, both stores and all processes share the cores.
- "In detail" lists the parts in the order in which they are spent; CPU counts a process with
  its children. Shares by function and by statement are of a run of its own that is sampled, because to
  look costs time: a function counts with all that it calls, except for what has a line of its own, and a
  statement counts what PostgreSQL spent on planning and carrying it out.
"""
_CHECK = """\
## `make bench-check`: nothing got slower

Each gauge is work of the product beside a yardstick: Python's work of the kind that planning does, commits
and reads of PostgreSQL, round trips of Valkey, a bare HTTP handler, or the same work at a tenth of the size.
They take turns, so a machine that is slow or busy is so for both. CPU time is compared, of all processes
that take part; what only waits is not seen by it. The median of the rounds' ratios is compared with the one
that is stored. A gauge that is more than × {most:g} above is measured {times} times in all, and the median
counts: that is part of the method, and there is no other retry. `python -m bench check --plant 30` has every
gauge work 30 % longer, to see that it is noticed; `--store` stores new ratios, when a change is meant.

Stored ratios, of {machine}:

| gauge | ratio |
|---|---:|
"""


def write_page(folder: Path = FOLDER, page: Path = PAGE) -> None:
    """From every result in `folder`."""
    images = Path(os.path.relpath(folder, page.parent))
    page.write_text(render(read_stored(folder), read_ratios(), images=images), encoding="utf-8")


def render(found: Sequence[Stored], ratios: Ratios, *, images: Path) -> str:
    """The page as Markdown; `images` is where its pictures lie, seen from it."""
    return "\n".join(
        [
            _HEAD,
            *_limits(found),
            *peers_section(found),
            *_check(ratios),
            *(line for stored in found for line in _section(stored, images)),
        ]
    )


def _limits(found: Sequence[Stored]) -> Iterator[str]:
    yield "## Limits\n"
    yield "| benchmark | figure | value | limit | kept |"
    yield "|---|---|---:|---:|---|"
    for stored in found:
        for figure in stored.result.figures:
            if figure.is_kept is not None:
                yield f"| [`{stored.result.name}`](#{_anchor(stored)}) {_row(figure)}"
    yield ""


def _check(ratios: Ratios) -> Iterator[str]:
    yield _CHECK.format(most=MOST, times=TIMES, machine=_named(ratios.machine)) + "\n".join(
        f"| {name} | {ratio:g} |" for name, ratio in ratios.ratios.items()
    )
    yield ""


def _heading(stored: Stored) -> str:
    return f"`{stored.result.name}`: {stored.result.title}"


def _anchor(stored: Stored) -> str:
    """As a page of Markdown names a heading."""
    kept = [each for each in _heading(stored).lower() if each.isalnum() or each in " -_"]
    return "".join(kept).replace(" ", "-")


def _section(stored: Stored, images: Path) -> Iterator[str]:
    result, machine = stored.result, stored.machine
    yield f"## {_heading(stored)}\n"
    yield f"{result.reading}\n"
    yield (
        f"{_named(machine)};"
        f" load average before the run {stored.load_average:g}; took {stored.took_seconds:g} s.\n"
    )
    if stored.load_average > machine.cores:
        yield (
            "**The load average was above the number of cores when this run began, from the benchmark before"
            " it or from other work: times may be above the machine's own.**\n"
        )
    yield "| figure | value | limit | kept |"
    yield "|---|---:|---:|---|"
    yield from (_row(figure) for figure in result.figures)
    yield ""
    if result.charts:
        titles = "; ".join(chart.title for chart in result.charts)
        yield f"![{titles}]({(images / f'{result.name}.svg').as_posix()})\n"
    if result.parts:
        yield "<details><summary>In detail</summary>\n"
        yield "| part | value |"
        yield "|---|---:|"
        yield from (f"| {part.name} | {part.value:g} {part.unit} |" for part in result.parts)
        yield "\n</details>\n"
    if result.limit:
        yield f"The limit that is left: {result.limit}\n"


def _named(machine: Machine) -> str:
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.system};"
        f" Python {machine.python}, PostgreSQL {machine.postgresql}, Valkey {machine.valkey}"
    )


def _row(figure: Figure) -> str:
    limit = "–"
    if figure.at_most is not None:
        limit = f"≤ {figure.at_most:g}"
    elif figure.at_least is not None:
        limit = f"≥ {figure.at_least:g}"
    kept = {True: "yes", False: "**no**", None: ""}[figure.is_kept]
    return f"| {figure.name} | {figure.value:g} {figure.unit} | {limit} | {kept} |"
