"""Quota use of every queue: what the World has, and what a cycle adds to it."""

from __future__ import annotations

from collections.abc import Mapping

from service.admission.query import ShapeQuery
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
        #: Answers that hold until the queue is charged again.
        self._rooms: dict[int, dict[str, int | None]] = {}
        self._exceeded: dict[int, dict[int, tuple[str, ...]]] = {}

    def used(self, queue_id: int, resource: str) -> int:
        added = self._added.get(queue_id)
        return self._used.get(queue_id, {}).get(resource, 0) + (added.get(resource, 0) if added else 0)

    def ceiling(self, queue_id: int, resource: str) -> int | None:
        return self._queues[queue_id].quota.ceiling(resource)

    def headroom(self, queue_id: int, resource: str) -> int | None:
        """How much more the queue may take, None for no bound; 0 also where it holds too much
        because its quota was lowered."""
        rooms = self._rooms.setdefault(queue_id, {})
        if resource not in rooms:
            ceiling = self.ceiling(queue_id, resource)
            rooms[resource] = None if ceiling is None else max(0, ceiling - self.used(queue_id, resource))
        return rooms[resource]

    def charge(self, queue_id: int, usage: Mapping[str, int]) -> None:
        added = self._added.setdefault(queue_id, {})
        for resource, amount in usage.items():
            added[resource] = added.get(resource, 0) + amount
        self._rooms.pop(queue_id, None)
        self._exceeded.pop(queue_id, None)

    def caps(self, queue_id: int, query: ShapeQuery) -> dict[str, int]:
        """GPUs by model that the queue may still take, for models that its quota bounds."""
        rooms = {model: self.headroom(queue_id, model) for model in query.models}
        return {model: room for model, room in rooms.items() if room is not None}

    def exceeded(self, queue_id: int, shape_id: int, query: ShapeQuery) -> tuple[str, ...]:
        """Resources for which one unit is too much, whichever model it takes. Empty: the quota
        has room for it, though perhaps not on the models that are free."""
        known = self._exceeded.setdefault(queue_id, {})
        if shape_id not in known:
            known[shape_id] = self._find_exceeded(queue_id, query)
        return known[shape_id]

    def _find_exceeded(self, queue_id: int, query: ShapeQuery) -> tuple[str, ...]:
        rooms = {resource: self.headroom(queue_id, resource) for resource in query.most}
        short = [
            resource for resource, room in rooms.items() if room is not None and query.most[resource] > room
        ]
        if not short:
            return ()
        found = [resource for resource in short if resource in (CPUS, MEMORY)]
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


def never_within(queue: Queue, query: ShapeQuery) -> tuple[str, ...]:
    """Resources of which the queue may never hold as much as one unit takes. Where models do not
    bind by themselves but by what the nodes have: those that may not hold all of it."""
    bounds = {resource: queue.quota.ceiling(resource) for resource in query.most}
    short = [r for r, bound in bounds.items() if bound is not None and query.most[r] > bound]
    models = exceeded_models(query, ceilings(queue, query))
    sure = [resource for resource in short if resource in (CPUS, MEMORY) or resource in models]
    return tuple(sure or short)


def quota_scope(queue: Queue, resource: str) -> dict[str, str]:
    """Whose quota, and of what; a model goes by the name of a flavor of GPUs."""
    if resource in (CPUS, MEMORY):
        return {"queue": queue.name, "resource": resource}
    return {"queue": queue.name, "resource": "gpus", "flavor": resource}


def ceiling_key(queue_id: int, resource: str) -> str:
    """Name of the shared number of how much a queue may hold."""
    return f"ceiling:{queue_id}:{resource}"


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
