"""The table: a row for each figure, a column for each policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from simulation.measures.measures import Measures
from simulation.measures.waiting import Waiting
from simulation.report import spans
from simulation.report.comparison import Comparison

Values = tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """`values` in the order of the policies, as plain numbers; `texts` for people. `best`: the columns with
    the best value, none where that means nothing or all are alike."""

    label: str
    values: Values
    texts: tuple[str, ...]
    best: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Section:
    title: str
    rows: tuple[Row, ...]


def sections_of(comparison: Comparison, *, most_tenants: int | None = None) -> tuple[Section, ...]:
    """`most_tenants`: only so many, those with the most GPU time."""
    measures = comparison.measures
    return (
        Section(title="Wait", rows=tuple(_spread(measures, "all.wait", spans.span))),
        Section(title="Job completion time", rows=tuple(_spread(measures, "all.jct", spans.span))),
        Section(title="Bounded slowdown", rows=tuple(_spread(measures, "all.slowdown", spans.decimal))),
        Section(title="Mean wait by GPUs", rows=tuple(_parts(measures, "by_size", "wait.mean"))),
        Section(
            title="Mean wait by tenant",
            rows=tuple(_parts(measures, "by_tenant", "wait.mean", most_tenants)),
        ),
        Section(title="Fairness", rows=tuple(_fairness(measures))),
        Section(title="Use", rows=tuple(_use(measures))),
        Section(title="Preemption", rows=tuple(_preemption(measures))),
        Section(title="Promises", rows=tuple(_promises(measures))),
    )


def row(
    label: str, values: Sequence[float | None], say: Callable[[float], str], *, best: str = "least"
) -> Row:
    """`best`: `least`, `most` or nothing."""
    known = [value for value in values if value is not None]
    texts = tuple("-" if value is None else say(value) for value in values)
    aim = {"least": min, "most": max}.get(best)
    if aim is None or len({say(value) for value in known}) < 2:
        return Row(label=label, values=tuple(values), texts=texts)
    # What reads alike is alike.
    target = say(aim(known))
    return Row(
        label=label,
        values=tuple(values),
        texts=texts,
        best=frozenset(number for number, text in enumerate(texts) if text == target),
    )


def _spread(measures: Sequence[Measures], path: str, say: Callable[[float], str]) -> Iterator[Row]:
    for name in ("mean", "p50", "p90", "p99"):
        yield row(name, _all(measures, f"{path}.{name}"), say)


def _parts(measures: Sequence[Measures], path: str, figure: str, most: int | None = None) -> Iterator[Row]:
    """The same sizes or tenants occur under each policy, in an order that may differ."""
    by_name: list[dict[str, Waiting]] = [{it.name: it for it in attrgetter(path)(each)} for each in measures]
    for name in list(by_name[0])[:most]:
        values = [attrgetter(figure)(parts[name]) for parts in by_name]
        yield row(name or "(none)", values, spans.span)


def _fairness(measures: Sequence[Measures]) -> Iterator[Row]:
    yield row("Jain of shares", _all(measures, "jain.index"), spans.index, best="most")
    yield row("over hours", _all(measures, "jain.hours"), spans.count, best="")
    yield row("median rho", _all(measures, "finish_time.rho.p50"), spans.decimal)
    yield row("worst rho", _all(measures, "finish_time.rho.most"), spans.decimal)
    yield row("rho above 1.05", _all(measures, "finish_time.unfair"), spans.percent)


def _use(measures: Sequence[Measures]) -> Iterator[Row]:
    yield row("utilisation", _all(measures, "usage.utilisation"), spans.percent, best="most")
    yield row("fragmentation", _all(measures, "usage.fragmentation"), spans.percent)


def _preemption(measures: Sequence[Measures]) -> Iterator[Row]:
    yield row("evictions", _all(measures, "giving_way.evictions"), spans.count)
    yield row("GPU time lost", _all(measures, "giving_way.lost_gpu_seconds"), spans.hours)
    yield row("of all held", _all(measures, "giving_way.lost_part"), spans.percent)


def _promises(measures: Sequence[Measures]) -> Iterator[Row]:
    yield row("longest wait", [_longest(each) for each in measures], spans.span)
    yield row("never started", _all(measures, "all.never_started"), spans.count)
    yield row("with a bound", _all(measures, "bounds.bounded"), spans.count, best="")
    yield row("beyond it", _all(measures, "bounds.beyond"), spans.count)


def _longest(measures: Measures) -> float | None:
    return measures.longest[0].wait_seconds if measures.longest else measures.all.wait.most


def _all(measures: Sequence[Measures], path: str) -> list[float | None]:
    return list(map(attrgetter(path), measures))
