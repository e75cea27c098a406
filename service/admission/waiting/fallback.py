"""Groups that would rather wait for the GPU model that they prefer, for so long as they say: until then the
models after it are not considered.

In the World such a row waits with a shape of its own that names the models to consider now, so that all that
is found out about a shape holds for it as for any other. When the next model's instant has come it becomes
one of those who wait for any of them. What runs has the whole shape.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from service.admission.waiting.guard_line import waits_since
from service.admission.waiting.terms import at_stage_id, whole_id
from service.admission.world import PendingUnit
from service.domain.shape import RoleShape, Shape, fallback_steps


class Awaited(NamedTuple):
    """Until `until` the role `role` waits for `models`; from then on `then` is considered, too."""

    role: str
    models: tuple[str, ...]
    until: datetime
    then: str


def awaited_by(shape: Shape, since: datetime, now: datetime) -> Iterator[Awaited]:
    """Of each role, what it waits for alone; nothing of one for which all of its models are considered.
    `shape`: on the terms of the queue."""
    for role in shape.roles:
        models = shape.terms.models(role) or ()
        step = role.fallback_seconds
        known = _considered(role, len(models), (now - since).total_seconds())
        if known < len(models):
            yield Awaited(role.name, models[:known], since + timedelta(seconds=step * known), models[known])


def at_stage(shape: Shape, stage: int) -> Shape:
    """The shape with the models that are considered from its step `stage` on; 0: from the beginning."""
    return _after(shape, (0, *fallback_steps(shape))[stage])


def shape_at(shape: Shape, since: datetime, now: datetime) -> Shape:
    """The shape with the models that are considered at `now` of a group that waits since then."""
    return _after(shape, (now - since).total_seconds())


def _after(shape: Shape, waited: float) -> Shape:
    def considered(role: RoleShape) -> RoleShape:
        models = shape.terms.models(role) or ()
        return replace(role, models=models[: _considered(role, len(models), waited)])

    roles = tuple(considered(role) if role.fallback_seconds else role for role in shape.roles)
    return replace(shape, roles=roles)


def _considered(role: RoleShape, count: int, waited: float) -> int:
    if not role.fallback_seconds:
        return count
    return min(count, 1 + max(0, int(waited // role.fallback_seconds)))


class Fallbacks:
    """Rows that have not come to all of their models, or came to some while they waited."""

    def __init__(self) -> None:
        #: The instant for which rows have their shapes; before the first, none has waited yet.
        self._now: datetime | None = None
        #: When another model is considered, and the row's id.
        self._steps: list[tuple[datetime, int]] = []
        self._steps_of: dict[int, tuple[datetime, ...]] = {}

    def staged(self, row: PendingUnit, shapes: dict[int, Shape]) -> PendingUnit:
        """The row with its shape as it is now, which is added to `shapes`."""
        whole = whole_id(row.shape_id)
        shape = shapes[whole]
        steps = fallback_steps(shape)
        if not steps:
            return row
        stage = 0 if self._now is None else bisect_right(list(_instants(row, shape)), self._now)
        shape_id = at_stage_id(whole, stage) if stage < len(steps) else whole
        if shape_id not in shapes or shapes[shape_id].terms != shape.terms:
            shapes[shape_id] = at_stage(shape, stage)
        return row if shape_id == row.shape_id else replace(row, shape_id=shape_id)

    def add(self, rows: Iterable[PendingUnit], shapes: Mapping[int, Shape]) -> None:
        for row in rows:
            instants = tuple(_instants(row, shapes[whole_id(row.shape_id)]))
            if instants:
                self._steps_of[row.id] = instants
                for at in instants:
                    insort(self._steps, (at, row.id))

    def remove(self, row_ids: Iterable[int]) -> None:
        for row_id in row_ids:
            for at in self._steps_of.pop(row_id, ()):
                del self._steps[bisect_left(self._steps, (at, row_id))]

    def move_to(self, now: datetime) -> frozenset[int]:
        """Rows that have another shape at `now` than they had at the instant before."""
        first = 0 if self._now is None else bisect_right(self._steps, self._now, key=_instant)
        last = bisect_right(self._steps, now, key=_instant)
        self._now = now
        return frozenset(row_id for _, row_id in self._steps[min(first, last) : max(first, last)])

    def next_step(self, now: datetime) -> datetime | None:
        """The next instant at which a row comes to another model."""
        at = bisect_right(self._steps, now, key=_instant)
        return self._steps[at][0] if at < len(self._steps) else None


def _instant(step: tuple[datetime, int]) -> datetime:
    return step[0]


def _instants(row: PendingUnit, shape: Shape) -> Iterator[datetime]:
    since = waits_since(row)
    return (since + timedelta(seconds=step) for step in fallback_steps(shape))
