"""What was found at each size, and as charts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.crowd.site import GPUS
from bench.results import Chart, Figure, Line, Result, milliseconds
from bench.scale.backlog import CHANGES, Point
from bench.scale.clients import BATCHES, Rate

_MIB = 2**20


def result_of(points: Sequence[Point], rates: Sequence[Rate]) -> Result:
    """The largest of everything as figures, all of it as parts."""
    largest = max(points, key=lambda point: (point.nodes, point.pending))
    return Result(
        name="scale",
        title="Over the size of the cluster, the backlog and the clients",
        reading=_READING,
        parameters={
            "most_nodes": largest.nodes,
            "most_pending": largest.pending,
            "most_clients": max(rate.clients for rate in rates),
            "changes": CHANGES,
        },
        figures=[
            *_figures(largest),
            *(
                Figure(
                    name=f"most groups a second, {_kind(batch)}",
                    value=round(max(rate.groups_per_second for rate in rates if rate.batch == batch)),
                    unit="groups/s",
                )
                for batch in BATCHES
            ),
        ],
        parts=[part for point in points for part in _figures(point)]
        + [
            Figure(
                name=f"{rate.clients} clients, {_kind(rate.batch)}",
                value=round(rate.groups_per_second),
                unit="groups/s",
            )
            for rate in rates
        ],
        charts=[*_charts(points), *_client_charts(rates)],
    )


_READING = (
    f"Groups of 500 shapes wait for nodes with {GPUS} GPUs in three topology levels, of which 85 % are held,"
    " in one queue for five nodes (200 at most), which lend to each other and may evict and reclaim. A cold"
    f" cycle is the first after a takeover has loaded everything; before each warm one {CHANGES} things"
    " changed, as in `crowd`; both are timed from the wake-up to the last write in both stores, and the"
    " median of the warm ones counts. The first admission is of `muster worker` as shipped, from the start"
    " of the process (with the interpreter's own start) until what it committed can be seen; the memory is"
    " the most that this process held until its first cycles had ended. Clients submit to the whole stack"
    " as shipped, with a cluster that is full, one request after the other on a connection each; the load"
    " generator runs on the same cores."
)


def _figures(point: Point) -> list[Figure]:
    at = f"{point.pending:,} waiting, {point.nodes:,} nodes"
    return [
        milliseconds(f"cold cycle, {at}", point.cold),
        milliseconds(f"warm cycle, {at}", point.warm),
        Figure(name=f"first admission, {at}", value=round(point.first_admission, 2), unit="s"),
        Figure(name=f"memory of the worker, {at}", value=round(point.memory / _MIB), unit="MiB"),
    ]


def _charts(points: Sequence[Point]) -> list[Chart]:
    return [
        _over_backlog("Cold cycle", "ms", points, lambda point: 1000 * point.cold),
        _over_backlog(f"Warm cycle after {CHANGES} changes", "ms", points, lambda point: 1000 * point.warm),
        _over_backlog(
            "Start of the worker to its first admission", "s", points, lambda point: point.first_admission
        ),
        _over_backlog("Memory of the worker", "MiB", points, lambda point: point.memory / _MIB),
    ]


def _over_backlog(title: str, unit: str, points: Sequence[Point], value: Callable[[Point], float]) -> Chart:
    return Chart(
        title=title,
        x_label="groups that wait",
        y_label="",
        unit=unit,
        lines=[
            Line(
                name=f"{nodes:,} nodes",
                points=[(point.pending, round(value(point), 3)) for point in points if point.nodes == nodes],
            )
            for nodes in sorted({point.nodes for point in points})
        ],
    )


def _client_charts(rates: Sequence[Rate]) -> list[Chart]:
    return [
        _over_clients("Groups submitted in a second", "groups/s", rates, lambda rate: rate.groups_per_second),
        _over_clients("Time of a request, p99", "ms", rates, lambda rate: 1000 * rate.p99),
    ]


def _over_clients(title: str, unit: str, rates: Sequence[Rate], value: Callable[[Rate], float]) -> Chart:
    return Chart(
        title=title,
        x_label="clients at once",
        y_label="",
        unit=unit,
        lines=[
            Line(
                name=_kind(batch),
                points=[(rate.clients, round(value(rate), 2)) for rate in rates if rate.batch == batch],
            )
            for batch in BATCHES
        ],
    )


def _kind(batch: int) -> str:
    return "single" if batch == 1 else f"batches of {batch:,}"
