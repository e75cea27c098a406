"""Everything that a report tells, as plain values: the same for the table, the page and the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from simulation.measures.measures import Measures
from simulation.report.claims import warnings_of
from simulation.report.facts import Facts


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """How the log was replayed: on which site, and with what of it changed."""

    site: str
    nodes: int
    gpus: int
    layout: str
    wrong_limits: tuple[float, float] | None
    seed: int
    node_events: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`measures` in the order in which the policies were named."""

    log: Facts
    replayed: Replayed
    warnings: tuple[str, ...]
    measures: tuple[Measures, ...]


def compare(log: Facts, replayed: Replayed, measures: Sequence[Measures]) -> Comparison:
    return Comparison(
        log=log,
        replayed=replayed,
        warnings=warnings_of(log, measures, has_made_limits=replayed.wrong_limits is not None),
        measures=tuple(measures),
    )


def to_json(comparison: Comparison) -> bytes:
    """One document; the same comparison gives the same bytes."""
    text = msgspec.json.encode(comparison, order="deterministic")
    return msgspec.json.format(text, indent=1) + b"\n"
