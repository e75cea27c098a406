"""Queues. Amounts by flavor in GPUs, `cpus` in CPUs, `memory_gib` in GiB; durations as text, such as `4h`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from service.client.deleting import delete
from service.client.transport import Transport, segment


class Queue(Struct, frozen=True, kw_only=True):
    """`nominal_quota` None: no quota. `borrowed`: what it uses above that. `demanded`: used, and what its
    waiting groups ask for. `share`: of its cohort, by its weight, or `infinite`; `rank`: 1 for the queue
    whose turn comes first by shares."""

    name: str
    tenant: str | None
    cohort: str | None
    weight: float
    order: str
    order_by: str
    stop: str
    nominal_quota: dict[str, float] | None
    borrowing_limit: dict[str, float]
    lending_limit: dict[str, float]
    limit: dict[str, float]
    user_limit: dict[str, float]
    group_limit: dict[str, float]
    flavors: list[str] | None
    pools: list[str] | None
    filling: str
    preempt_within: str
    reclaim: str
    min_runtime: str
    evictions_per_day: int | None
    highest_priority: dict[str, int]
    default_time_limit: str | None
    max_time_limit: str | None
    used: dict[str, float]
    borrowed: dict[str, float]
    demanded: dict[str, float]
    waiting: int
    share: float | str
    rank: int
    created_at: datetime
    deleting_at: datetime | None


class _QueueList(Struct, frozen=True):
    queues: list[Queue]


class Queues:
    """Reading is for everybody, changing for admins."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask

    def list(self) -> list[Queue]:
        return self._ask("GET", "/v1/queues", _QueueList).queues

    def get(self, name: str) -> Queue:
        return self._ask("GET", f"/v1/queues/{segment(name)}", Queue)

    def create(self, name: str, fields: Mapping[str, object]) -> Queue:
        """`fields` as the API names them: tenant, cohort, order, stop, nominal_quota, limit, ..."""
        body = {"name": name, **fields}
        return self._ask("POST", "/v1/queues", Queue, body=body, is_repeatable=False)

    def update(self, name: str, fields: Mapping[str, object]) -> Queue:
        """A map among `fields` replaces the whole map."""
        return self._ask("PATCH", f"/v1/queues/{segment(name)}", Queue, body=dict(fields))

    def delete(self, name: str, *, has_drain: bool = False) -> Queue:
        """The queue as it was. `has_drain`: its groups are cancelled, and it goes when they have ended."""
        queue, path = self.get(name), f"/v1/queues/{segment(name)}"
        query = {"drain": "true" if has_drain else None}
        return delete(lambda: self._ask("DELETE", path, Queue, query=query), before=queue)
