"""A crowd waits for a large cluster that is mostly full: what a cold and a warm cycle cost, and how that
grows with what waits and with what changed."""

from __future__ import annotations

from dataclasses import replace

from bench.crowd.measure import measure
from bench.crowd.result import result_of
from bench.crowd.site import Size
from bench.results import Result
from bench.servers import both_stores, short_folder

#: Beside the full size: what a warm cycle costs should not follow it.
_SMALLER = (0.1, 0.3)


def run(scale: float) -> Result:
    """On servers of its own, one after the other for each size; the largest first, in a process that has not
    had others."""
    full = Size()
    cycles = max(3, round(12 * scale))
    found = {}
    for share in (1.0, *reversed(_SMALLER)):
        size = replace(full, pending=round(full.pending * share))
        with short_folder() as folder, both_stores(folder) as (database_url, redis_url):
            found[size.pending] = measure(database_url, redis_url, size, cycles=cycles)
    return result_of(full, dict(sorted(found.items())))
