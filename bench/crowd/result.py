"""What was found about a crowd, against its limits, and as charts."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.crowd.site import GPUS, Size
from bench.functions import Functions
from bench.results import Chart, Figure, Line, Result, milliseconds, quantile

#: The limit of a warm cycle is for so many changes; with others it is seen how the cost grows.
CHANGES = 100
_COLD_SECONDS, _WARM_SECONDS, _MEMORY_GIB = 5.0, 0.15, 1.5
#: So much more a warm cycle may cost when ten times as many wait.
_GROWTH = 2.0
_LIMIT = (
    "What has come free is offered to every shape that waits, and what still finds no place is told why: both"
    " look at the topology domains of its fields."
)


@dataclass(slots=True)
class Found:
    """Seconds, and bytes of this process. `warm`: those of each cycle, by how much had changed before it."""

    load: float = 0.0
    cold: float = 0.0
    warm: dict[int, list[float]] = field(default_factory=dict)
    admitted: int = 0
    memory: int = 0
    functions: Functions = field(default_factory=Functions)


def result_of(size: Size, found: dict[int, Found]) -> Result:
    whole, least = found[size.pending], next(iter(found.values()))
    warm = whole.warm[CHANGES]
    figures = [
        milliseconds("cold cycle", whole.cold, at_most=1000 * _COLD_SECONDS),
        milliseconds("warm cycle, median", quantile(warm, 0.5), at_most=1000 * _WARM_SECONDS),
        milliseconds("warm cycle, longest", max(warm)),
        Figure(
            name=f"warm cycle, {max(found):,} waiting to {min(found):,}",
            value=round(quantile(warm, 0.5) / quantile(least.warm[CHANGES], 0.5), 2),
            unit="ratio",
            at_most=_GROWTH,
        ),
        Figure(
            name="memory of the process",
            value=round(whole.memory / 2**30, 2),
            unit="GiB",
            at_most=_MEMORY_GIB,
        ),
        milliseconds("full load at takeover", whole.load),
        Figure(
            name="admitted in a warm cycle",
            value=round(whole.admitted / len(warm), 1),
            unit="groups",
        ),
    ]
    growth = [
        milliseconds(f"cold cycle, {pending:,} waiting", each.cold) for pending, each in found.items()
    ] + [
        milliseconds(f"warm cycle, {pending:,} waiting, {changes:,} changes", quantile(seconds, 0.5))
        for pending, each in found.items()
        for changes, seconds in sorted(each.warm.items())
    ]
    return Result(
        name="crowd",
        title="A crowd waits",
        reading=_reading(size),
        parameters={
            "nodes": size.nodes,
            "queues": size.queues,
            "cohorts": size.cohorts,
            "shapes": size.shapes,
            "pending": size.pending,
            "changes": CHANGES,
        },
        figures=figures,
        parts=[*growth, *whole.functions.parts("warm")],
        limit=_LIMIT,
        charts=_charts(found),
    )


def _reading(size: Size) -> str:
    return (
        f"{size.pending:,} groups of {size.shapes} shapes wait in {size.queues} queues of {size.cohorts}"
        f" cohorts for {size.nodes:,} nodes with {GPUS} GPUs in three topology levels, of which"
        f" {round(100 * size.held_share)} % are held. Queues lend to each other, and may evict lower"
        " priorities and reclaim. A cold cycle is the first one after a takeover has loaded everything."
        f" Before each warm one {CHANGES} things changed in as many queues and shapes (for the growth also"
        " more and fewer): half are submissions, a quarter cancellations, a quarter ends that leave a node to"
        " others. Cycles are timed from the wake-up to the last write in both stores. The process has also"
        " what makes the crowd."
    )


def _charts(found: dict[int, Found]) -> list[Chart]:
    """The same medians twice: over what changed, and over what waits."""
    medians = {
        (pending, changes): round(1000 * quantile(seconds, 0.5), 2)
        for pending, each in found.items()
        for changes, seconds in each.warm.items()
    }
    changed = sorted({changes for _, changes in medians})
    return [
        Chart(
            title="By what has changed",
            x_label="changes before the cycle",
            y_label="warm cycle, median",
            unit="ms",
            at_most=1000 * _WARM_SECONDS,
            limit_of=f"after {CHANGES}",
            lines=[
                Line(name=f"{pending:,} wait", points=[(each, medians[pending, each]) for each in changed])
                for pending in found
            ],
        ),
        Chart(
            title="By what waits",
            x_label="groups that wait",
            y_label="warm cycle, median",
            unit="ms",
            at_most=1000 * _WARM_SECONDS,
            limit_of=f"after {CHANGES}",
            lines=[
                Line(
                    name=f"{changes:,} changes",
                    points=[(pending, medians[pending, changes]) for pending in found],
                )
                for changes in changed
            ],
        ),
    ]
