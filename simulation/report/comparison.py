"""Everything that a report tells, as plain values: the same for the table, the page and the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from simulation.measures.measures import Measures
from simulation.report.claims import warnings_of
from simulation.report.facts import Facts, Missing


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """How the log was replayed: on which site, and with what of it changed."""

    site: str
    nodes: int
    gpus: int
    layout: str
    wrong_limits: tuple[float, float] | None
    seed: int
    outages: int


@dataclass(frozen=True, kw_only=True)
class NotTaken:
    """Rows that could be replayed, and that the site does not take under this policy."""

    policy: str
    rows: tuple[Missing, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`measures` in the order in which the policies were named."""

    log: Facts
    replayed: Replayed
    not_taken: tuple[NotTaken, ...]
    warnings: tuple[str, ...]
    measures: tuple[Measures, ...]


def compare(
    log: Facts, replayed: Replayed, measures: Sequence[Measures], *, not_taken: Sequence[NotTaken] = ()
) -> Comparison:
    return Comparison(
        log=log,
        replayed=replayed,
        not_taken=tuple(not_taken),
        warnings=(
            *warnings_of(log, measures, has_made_limits=replayed.wrong_limits is not None),
            *_not_taken(not_taken),
        ),
        measures=tuple(measures),
    )


def _not_taken(left_out: Sequence[NotTaken]) -> Iterator[str]:
    for each in left_out:
        count = sum(row.count for row in each.rows)
        yield (
            f"{each.policy}: {count:,} more rows were left out that this policy does not take; other policies"
            " may have replayed them."
        )


def to_json(comparison: Comparison) -> bytes:
    """One document; the same comparison gives the same bytes."""
    text = msgspec.json.encode(comparison, order="deterministic")
    return msgspec.json.format(text, indent=1) + b"\n"
