"""`bench/README.md`, written from the stored results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.results import FOLDER, Figure, Stored, read_stored

PAGE = FOLDER.parent / "README.md"

_HEAD = """\
# Benchmarks

`make bench` measures, writes `bench/results/NAME.json` and this page from them, and ends with an error
if a limit is not kept. `python -m bench NAME ...` runs some, `--scale 0.1` for a tenth of the time,
`--dry` without storing anything. It takes a few minutes, uses servers of its own on unix sockets and
127.0.0.1, and leaves nothing running. Pictures are drawn from the stored results by `make plots`.

## How to read the figures

- **Absolute numbers are of the one machine that is named below.** Compare two commits on one machine, or
  ratios that were measured side by side in one run; do not compare milliseconds of two machines.
- The load average says what else the machine did in the minute before. Beyond its cores, times include
  waiting for a core, and high quantiles suffer most.
- PostgreSQL runs with fsync on and Valkey with its append-only file, as `muster up` starts them. A run
  refuses to measure anything else.
- The load generator, both stores and all processes share the cores.
- "Where the time goes" lists the parts in the order in which they are spent; CPU counts a process with
  its children. Shares by function and by statement are of a run of its own that is sampled, because to
  look costs time: a function counts with all that it calls, except for what has a line of its own, and a
  statement counts what PostgreSQL spent on planning and carrying it out.
"""


def write_readme(folder: Path = FOLDER, page: Path = PAGE) -> None:
    """From every result in `folder`."""
    page.write_text(render(read_stored(folder)), encoding="utf-8")


def render(found: Sequence[Stored]) -> str:
    """The page as Markdown."""
    return "\n".join([_HEAD, *(line for stored in found for line in _section(stored))])


def _section(stored: Stored) -> Iterator[str]:
    result, machine = stored.result, stored.machine
    yield f"## `{result.name}`: {result.title}\n"
    yield f"{result.reading}\n"
    yield (
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.system};"
        f" Python {machine.python}, PostgreSQL {machine.postgresql}, Valkey {machine.valkey};"
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
        yield f"![{titles}](results/{result.name}.svg)\n"
    if result.parts:
        yield "Where the time goes:\n"
        yield "| part | value |"
        yield "|---|---:|"
        yield from (f"| {part.name} | {part.value:g} {part.unit} |" for part in result.parts)
        yield ""
    if result.limit:
        yield f"The limit that is left: {result.limit}\n"


def _row(figure: Figure) -> str:
    limit = "–"
    if figure.at_most is not None:
        limit = f"≤ {figure.at_most:g}"
    elif figure.at_least is not None:
        limit = f"≥ {figure.at_least:g}"
    kept = {True: "yes", False: "**no**", None: ""}[figure.is_kept]
    return f"| {figure.name} | {figure.value:g} {figure.unit} | {limit} | {kept} |"
