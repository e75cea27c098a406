"""What a benchmark found, on the screen."""

from __future__ import annotations

from bench.results import Stored


def show(stored: Stored) -> bool:
    """Whether every limit is kept."""
    is_kept = True
    for figure in (*stored.result.figures, *stored.result.parts):
        verdict = {True: "kept", False: "NOT KEPT", None: ""}[figure.is_kept]
        limit = figure.at_most if figure.at_most is not None else figure.at_least
        told = "" if limit is None else f"  (limit {limit:g}: {verdict})"
        print(f"  {figure.name}: {figure.value:g} {figure.unit}{told}")
        is_kept &= figure.is_kept is not False
    print(f"  took {stored.took_seconds:g} s, load average before {stored.load_average:g}", flush=True)
    return is_kept
