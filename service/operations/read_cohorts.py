"""Cohorts with their members, and what these hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from service.domain.errors import NotFound
from service.domain.principal import Principal
from service.operations.read_queues import may_see
from service.store import cohorts as store
from service.store.cohorts import CohortRecord
from service.store.queues import QueueRecord, list_queues
from service.store.usage import used_by_queue


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortView:
    """A cohort. `cohorts` and `queues`: what is directly in it, as far as the key may know of it. By
    resource: `total` is its nominal quota and that of everything below it, `used` what all groups below it
    hold."""

    cohort: CohortRecord
    cohorts: tuple[str, ...]
    queues: tuple[str, ...]
    total: Mapping[str, int]
    used: Mapping[str, int]

    @property
    def borrowed(self) -> dict[str, int]:
        """What is used of all that it has, and more, so taken from its parent."""
        above = {
            resource: self.used[resource] - amount
            for resource, amount in self.total.items()
            if resource in self.used
        }
        return {resource: amount for resource, amount in above.items() if amount > 0}


def list_cohorts(engine: Engine, principal: Principal) -> tuple[CohortView, ...]:
    """Every cohort, by name."""
    with engine.connect() as conn:
        return _Below(conn).views(principal)


def get_cohort(engine: Engine, name: str, *, principal: Principal) -> CohortView:
    """Raises NotFound."""
    for view in list_cohorts(engine, principal):
        if view.cohort.name == name:
            return view
    raise no_cohort(name)


def no_cohort(name: str) -> NotFound:
    return NotFound(f"There is no cohort {name}.")


class _Below:
    """What is in each cohort, from one reading."""

    def __init__(self, conn: Connection) -> None:
        self._cohorts = store.list_cohorts(conn)
        self._queues = list_queues(conn)
        self._used = used_by_queue(conn)

    def views(self, principal: Principal) -> tuple[CohortView, ...]:
        return tuple(self._view(cohort, principal) for cohort in self._cohorts)

    def _view(self, cohort: CohortRecord, principal: Principal) -> CohortView:
        children = self._children(cohort.name)
        cohorts, queues = self._all_below(cohort.name)
        return CohortView(
            cohort=cohort,
            cohorts=tuple(each.name for each in children),
            queues=tuple(queue.name for queue in self._in(cohort.name) if may_see(principal, queue)),
            total=_sum(
                [each.settings.quota.nominal or {} for each in (cohort, *cohorts)]
                + [queue.quota.nominal or {} for queue in queues]
            ),
            used=_sum(self._used.get(queue.id, {}) for queue in queues),
        )

    def _children(self, name: str) -> list[CohortRecord]:
        return [each for each in self._cohorts if each.settings.parent == name]

    def _in(self, name: str) -> list[QueueRecord]:
        return [queue for queue in self._queues if queue.settings.cohort == name]

    def _all_below(self, name: str) -> tuple[list[CohortRecord], list[QueueRecord]]:
        cohorts, queues = [], self._in(name)
        for child in self._children(name):
            inner, others = self._all_below(child.name)
            cohorts += [child, *inner]
            queues += others
        return cohorts, queues


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in amounts:
        total.update(each)
    return dict(total)
