"""Cohorts with their members, and what these hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from service.admission.quota.nodes import QuotaNode
from service.admission.quota.tree import QuotaTree
from service.domain.errors import NotFound
from service.domain.principal import Principal
from service.operations.read_queues import may_see
from service.store import cohorts as store
from service.store.cohorts import CohortRecord
from service.store.queues import QueueRecord, list_queues
from service.store.usage import used_by_queue
from service.store.world_rows import read_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortView:
    """A cohort. `cohorts` and `queues`: what is directly in it, as far as the key may know of it. By
    resource: `total` is its nominal quota and that of everything below it, `used` what all groups below it
    hold, `borrowed` what it takes from its parent beyond what it and its members lend."""

    cohort: CohortRecord
    cohorts: tuple[str, ...]
    queues: tuple[str, ...]
    total: Mapping[str, int]
    used: Mapping[str, int]
    borrowed: Mapping[str, int]


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
        self._tree = QuotaTree(read_tree(conn), self._used)

    def views(self, principal: Principal) -> tuple[CohortView, ...]:
        return tuple(self._view(cohort, principal) for cohort in self._cohorts)

    def _view(self, cohort: CohortRecord, principal: Principal) -> CohortView:
        node = self._tree.cohorts.get(cohort.id)
        return CohortView(
            cohort=cohort,
            cohorts=tuple(each.name for each in self._children(cohort.name)),
            queues=tuple(queue.name for queue in self._in(cohort.name) if may_see(principal, queue)),
            total={} if node is None else node.total,
            used=_sum(self._used.get(queue.id, {}) for queue in self._all_below(cohort.name)),
            borrowed={} if node is None else _borrowed(node),
        )

    def _children(self, name: str) -> list[CohortRecord]:
        return [each for each in self._cohorts if each.settings.parent == name]

    def _in(self, name: str) -> list[QueueRecord]:
        return [queue for queue in self._queues if queue.settings.cohort == name]

    def _all_below(self, name: str) -> list[QueueRecord]:
        inner = [queue for child in self._children(name) for queue in self._all_below(child.name)]
        return self._in(name) + inner


def _borrowed(node: QuotaNode) -> dict[str, int]:
    if node.parent is None:
        return {}
    above = {resource: amount - node.subtree.get(resource, 0) for resource, amount in node.usage.items()}
    return {resource: amount for resource, amount in above.items() if amount > 0}


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in amounts:
        total.update(each)
    return dict(total)
