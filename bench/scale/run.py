"""The whole grid, and submits over clients."""

from __future__ import annotations

from collections.abc import Sequence

from bench.results import Result
from bench.scale.backlog import measure_backlogs
from bench.scale.clients import measure_clients
from bench.scale.result import result_of

_NODES = (100, 1_000, 10_000)
_PENDING = (1_000, 10_000, 100_000)
_CLIENTS = (1, 2, 4, 8, 16, 32, 64)
_CYCLES = 5


def run(scale: float) -> Result:
    """Servers of its own for each cluster, one after the other."""
    pending = _shorter(_PENDING, scale)
    points = [
        point
        for nodes in _shorter(_NODES, scale)
        for point in measure_backlogs(nodes, pending, cycles=_CYCLES, say=_say)
    ]
    return result_of(points, measure_clients(_CLIENTS, scale=scale, say=_say))


def _shorter(sizes: Sequence[int], scale: float) -> Sequence[int]:
    """The largest size takes most of the time."""
    return sizes if scale >= 1 else sizes[:-1]


def _say(what: str) -> None:
    print(f"  {what} ...", flush=True)
