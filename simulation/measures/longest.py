"""The groups that waited longest, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from simulation.measures.table import Floats, Table
from simulation.outcome.group import Fate
from simulation.outcome.outcome import History, Outcome

#: So many are told of.
_MOST = 5
#: More changes than these tell nobody anything.
_MOST_SPANS = 40


@dataclass(frozen=True, kw_only=True)
class Reasoned:
    """From `begin_seconds` to `end_seconds` (since the first submission) it waited for `codes`; none while it
    ran."""

    begin_seconds: float
    end_seconds: float
    codes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LongWait:
    """`has_started` is false where the wait had not ended when the replay did, or the group was withdrawn.
    `reasons` in order of time; `more`: changes after those that are told. `seconds_by_code`: how long each
    was among the reasons, the longest first."""

    number: int
    name: str
    tenant: str
    gpus: int
    submitted_seconds: float
    wait_seconds: float
    has_started: bool
    reasons: tuple[Reasoned, ...]
    more: int
    seconds_by_code: tuple[tuple[str, float], ...]


def longest_of(outcome: Outcome, table: Table, name_of: Callable[[int], str]) -> tuple[LongWait, ...]:
    """The longest first; equals by number. Waits count up to the first start, or as long as none came; who
    waits for what can never be is not among them."""
    waits = _waits(table)
    histories = {each.number: each for each in outcome.histories}
    order = np.lexsort((np.arange(len(waits)), -waits))[:_MOST]
    return tuple(
        replace(
            _long_wait(int(number), float(waits[number]), table, histories.get(int(number))),
            name=name_of(int(number)),
        )
        for number in order
        if waits[number] > 0
    )


def _waits(table: Table) -> Floats:
    groups = table.groups
    left = np.where(np.isnan(groups.ended), table.horizon, groups.ended)
    waits = np.where(groups.has_started, groups.wait, left - groups.submitted)
    return np.where(groups.fate == Fate.NEVER_FITS, 0.0, waits)


def _long_wait(number: int, wait: float, table: Table, history: History | None) -> LongWait:
    groups = table.groups
    submitted = float(groups.submitted[number])
    spans = _spans(history, until=submitted + wait) if history else ()
    return LongWait(
        number=number,
        name="",
        tenant=table.tenants[groups.tenant[number]],
        gpus=int(groups.gpus[number]),
        submitted_seconds=submitted,
        wait_seconds=wait,
        has_started=bool(groups.has_started[number]),
        reasons=spans[:_MOST_SPANS],
        more=max(0, len(spans) - _MOST_SPANS),
        seconds_by_code=_seconds_by_code(spans),
    )


def _spans(history: History, until: float) -> tuple[Reasoned, ...]:
    """Up to the first start; neighbours with the same reasons are one."""
    spans: list[Reasoned] = []
    ends = [at for at, _ in history.reasons[1:]] + [until]
    for (begin, codes), next_at in zip(history.reasons, ends, strict=True):
        end = min(next_at, until)
        if begin >= end:
            continue
        is_same = bool(spans) and spans[-1].codes == codes
        since = spans.pop().begin_seconds if is_same else begin
        spans.append(Reasoned(begin_seconds=since, end_seconds=end, codes=codes))
    return tuple(spans)


def _seconds_by_code(spans: tuple[Reasoned, ...]) -> tuple[tuple[str, float], ...]:
    sums: dict[str, float] = {}
    for span in spans:
        for code in span.codes:
            sums[code] = sums.get(code, 0.0) + span.end_seconds - span.begin_seconds
    return tuple(sorted(sums.items(), key=lambda it: (-it[1], it[0])))
