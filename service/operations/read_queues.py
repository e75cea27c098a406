"""Queues with what they hold and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine

from service.admission.quota.tree import QuotaTree
from service.domain.errors import NotFound
from service.domain.principal import Principal
from service.store import queues as store
from service.store.queues import QueueRecord
from service.store.usage import used_by_queue, waiting_by_queue
from service.store.world_rows import read_capacity, read_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """A queue with what it holds and what its groups ask for, by resource. `share`: its weighted dominant
    share of its cohort, or of the cluster, by what is held now; infinite for weight 0. `rank`: its number
    among all queues in the order of their shares, 1 for the first."""

    queue: QueueRecord
    used: Mapping[str, int] = field(default_factory=dict)
    demanded: Mapping[str, int] = field(default_factory=dict)
    waiting_groups: int = 0
    share: float = 0.0
    rank: int = 0

    @property
    def borrowed(self) -> dict[str, int]:
        """What it holds above its nominal quota."""
        return self.queue.quota.above_nominal(self.used)


def list_queues(engine: Engine, principal: Principal) -> tuple[QueueView, ...]:
    """The queues that this key may know of, by name."""
    with engine.connect() as conn:
        found = [queue for queue in store.list_queues(conn) if may_see(principal, queue)]
        return tuple(_views(conn, found))


def get_queue(engine: Engine, name: str, *, principal: Principal) -> QueueView:
    """Raises NotFound, also for a queue of another tenant."""
    with engine.connect() as conn:
        queue = store.find_queue(conn, name)
        found = [] if queue is None or not may_see(principal, queue) else [queue]
        for view in _views(conn, found):
            return view
        raise no_queue(name)


def no_queue(name: str) -> NotFound:
    return NotFound(f"There is no queue {name}.")


def _views(conn: Connection, found: list[QueueRecord]) -> Iterator[QueueView]:
    used, waiting = used_by_queue(conn), waiting_by_queue(conn)
    tree = QuotaTree(read_tree(conn), used, capacity=read_capacity(conn))
    ranks = tree.ranks()
    # What was deleted since it was found is in no tree.
    for queue in (each for each in found if each.id in ranks):
        held = used.get(queue.id, {})
        asked = waiting.get(queue.id)
        demanded = dict(held)
        for resource, amount in asked.amounts.items() if asked else ():
            demanded[resource] = demanded.get(resource, 0) + amount
        yield QueueView(
            queue=queue,
            used=held,
            demanded=demanded,
            waiting_groups=asked.groups if asked else 0,
            share=tree.share(queue.id),
            rank=ranks[queue.id],
        )


def may_see(principal: Principal, queue: QueueRecord) -> bool:
    return principal.is_operator or queue.settings.tenant in (None, principal.tenant)
