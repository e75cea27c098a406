"""Quota use of every queue: what the World has, and what a cycle adds to it."""

from __future__ import annotations

from collections.abc import Mapping

from service.admission.query import NO_MODEL, ShapeQuery
from service.admission.world import Queue
from service.domain.resources import CPUS, MEMORY

Usage = dict[int, dict[str, int]]


class QuotaBook:
    """Flat quotas: a queue may hold its ceiling of each resource, its nominal quota or limit.
    Lending within a cohort would be decided here."""

    def __init__(self, queues: Mapping[int, Queue], used: Mapping[int, Mapping[str, int]]) -> None:
        self._queues = queues
        self._used = used
        self._added: Usage = {}

    def used(self, queue_id: int, resource: str) -> int:
        added = self._added.get(queue_id)
        return self._used.get(queue_id, {}).get(resource, 0) + (added.get(resource, 0) if added else 0)

    def ceiling(self, queue_id: int, resource: str) -> int | None:
        return self._queues[queue_id].quota.ceiling(resource)

    def headroom(self, queue_id: int, resource: str) -> int | None:
        """How much more the queue may take, None for no bound; 0 also where it holds too much
        because its quota was lowered."""
        ceiling = self.ceiling(queue_id, resource)
        return None if ceiling is None else max(0, ceiling - self.used(queue_id, resource))

    def charge(self, queue_id: int, usage: Mapping[str, int]) -> None:
        added = self._added.setdefault(queue_id, {})
        for resource, amount in usage.items():
            added[resource] = added.get(resource, 0) + amount

    def caps(self, queue_id: int, query: ShapeQuery) -> dict[str, int]:
        """GPUs by model that the queue may still take, for models that its quota bounds."""
        rooms = {model: self.headroom(queue_id, model) for model in query.models}
        return {model: room for model, room in rooms.items() if room is not None}

    def exceeded(self, queue_id: int, query: ShapeQuery) -> tuple[str, ...]:
        """Resources for which one unit is too much, whichever model it takes. Empty: the quota
        has room for it, though perhaps not on the models that are free."""
        found = [
            resource
            for resource, need in ((CPUS, query.total.cpus_milli), (MEMORY, query.total.memory_mib))
            if (room := self.headroom(queue_id, resource)) is not None and need > room
        ]
        found.extend(exceeded_models(query, self.caps(queue_id, query)))
        return tuple(found)

    def members_within(self, queue_id: int, query: ShapeQuery, want: int) -> int:
        """How many of `want` independent members CPUs and memory allow; models are bounded by
        `caps` as each member takes its own."""
        for resource, need in ((CPUS, query.total.cpus_milli), (MEMORY, query.total.memory_mib)):
            room = self.headroom(queue_id, resource)
            if room is not None and need:
                want = min(want, room // need)
        return want


def ceilings(queue: Queue, query: ShapeQuery) -> dict[str, int]:
    """As `QuotaBook.caps`, for a queue that holds nothing."""
    bounds = {model: queue.quota.ceiling(model) for model in query.models}
    return {model: bound for model, bound in bounds.items() if bound is not None}


def is_within_ceilings(queue: Queue, query: ShapeQuery) -> bool:
    """Whether CPUs and memory of one unit are within what the queue may ever hold."""
    needs = ((CPUS, query.total.cpus_milli), (MEMORY, query.total.memory_mib))
    return all(
        need <= bound for resource, need in needs if (bound := queue.quota.ceiling(resource)) is not None
    )


def gpus_by_model(query: ShapeQuery) -> dict[str, int]:
    """The most GPUs of each model that one unit would take."""
    gpus: dict[str, int] = {}
    for role in query.roles:
        for model in role.models:
            if model != NO_MODEL:
                gpus[model] = gpus.get(model, 0) + role.count * role.requests.gpus
    return gpus


def exceeded_models(query: ShapeQuery, caps: Mapping[str, int]) -> tuple[str, ...]:
    """Models whose caps are too small, if that leaves no choice of models for some role, or too
    little of the only model that several roles can take."""
    if not caps or not query.models:
        return ()
    only: dict[str, int] = {}
    blocked: set[str] = set()
    for role in query.roles:
        if not role.requests.gpus:
            continue
        if len(role.models) == 1:
            (model,) = role.models
            only[model] = only.get(model, 0) + role.count * role.requests.gpus
        rooms = [
            min(caps.get(model, role.count * role.requests.gpus) // role.requests.gpus, role.count)
            for model in role.models
        ]
        if sum(rooms) < role.count:
            blocked.update(role.models)
    blocked.update(model for model, need in only.items() if need > caps.get(model, need))
    return tuple(sorted(blocked))
