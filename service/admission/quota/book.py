"""Quota in one cycle: what queues may still take, and what the cycle adds to what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from service.admission.nodes.query import ShapeQuery
from service.admission.quota.nodes import Amounts, QuotaNode
from service.admission.quota.tree import QuotaTree, Room
from service.domain.reasons import Code
from service.domain.resources import CPUS, MEMORY


class Exceeded(NamedTuple):
    """A resource of which a queue may not take as much as one unit needs, and what bounds it there. `of`:
    the cohort whose members have equally little left; None if it is the queue's own amount."""

    resource: str
    code: Code
    cohort_id: int | None
    of: int | None


class QuotaBook:
    """A view on the World's tree. What a cycle charges is given back when the cycle ends."""

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree
        #: Of what was charged, what was held and used there before, and its revision.
        self._before: dict[QuotaNode, tuple[Amounts, Amounts, int]] = {}
        #: By queue, with the revision of its tree.
        self._rooms: dict[int, tuple[int, dict[str, Room | None]]] = {}

    def room(self, queue_id: int, resource: str) -> Room | None:
        """How much more the queue may take and what bounds it, None for no bound."""
        revision, known = self.tree.queues[queue_id].root.revision, self._rooms.get(queue_id)
        if known is None or known[0] != revision:
            known = self._rooms[queue_id] = revision, {}
        rooms = known[1]
        if resource not in rooms:
            rooms[resource] = self.tree.room(queue_id, resource)
        return rooms[resource]

    def headroom(self, queue_id: int, resource: str) -> int | None:
        return self.tree.available(queue_id, resource)

    def charge(self, queue_id: int, usage: Mapping[str, int]) -> None:
        queue = self.tree.queues.get(queue_id)
        for node in () if queue is None else queue.line:
            if node not in self._before:
                self._before[node] = node.held.copy(), node.usage.copy(), node.revision
        self.tree.charge(queue_id, usage)

    def give_back(self) -> None:
        """What was charged is as it was, also by its revisions: what was found out then holds again."""
        for node, (held, usage, revision) in self._before.items():
            node.held, node.usage, node.revision = held, usage, revision
        self._before.clear()

    def caps(self, queue_id: int, query: ShapeQuery, *, is_within: bool = False) -> dict[str, int]:
        """GPUs by model that the queue may still take, for models that its quota bounds; `is_within`: of
        its own nominal quota."""
        if not query.models:
            return {}
        rooms = {model: self.headroom(queue_id, model) for model in query.models}
        if is_within:
            for model, room in rooms.items():
                own = self.tree.own_room(queue_id, model)
                rooms[model] = own if room is None else min(own, room)
        return {model: room for model, room in rooms.items() if room is not None}

    def has_room(self, queue_id: int, query: ShapeQuery) -> bool:
        """Whether there is quota for one unit, on some of the models that it could take."""
        for resource, need in query.most.items():
            if need and (left := self.tree.available(queue_id, resource)) is not None and need > left:
                return not self.exceeded(queue_id, query)
        return True

    def exceeded(self, queue_id: int, query: ShapeQuery) -> tuple[str, ...]:
        """Resources for which one unit is too much, whichever model it takes. Empty: the quota
        has room for it, though perhaps not on the models that are free."""
        return short_of(query, {resource: self.headroom(queue_id, resource) for resource in query.most})

    def bounds(self, queue_id: int, resources: Iterable[str]) -> tuple[Exceeded, ...]:
        """What bounds the queue in each of these resources."""
        rooms = ((resource, self.room(queue_id, resource)) for resource in resources)
        return tuple(
            Exceeded(resource, room.code, room.cohort_id, room.of)
            for resource, room in rooms
            if room is not None
        )

    def exceeded_with(self, queue_id: int, query: ShapeQuery) -> tuple[Exceeded, ...]:
        """As `exceeded`, with what bounds each."""
        exceeded = self.exceeded(queue_id, query)
        return self.bounds(queue_id, exceeded) if exceeded else ()

    def members_within(self, queue_id: int, query: ShapeQuery, want: int) -> int:
        """How many of `want` independent members CPUs and memory allow; models are bounded by
        `caps` as each member takes its own."""
        for resource, need in ((CPUS, query.total.cpus_milli), (MEMORY, query.total.memory_mib)):
            room = self.headroom(queue_id, resource)
            if room is not None and need:
                want = min(want, room // need)
        return want


def ceilings(tree: QuotaTree, queue_id: int, query: ShapeQuery, *, is_within: bool = False) -> dict[str, int]:
    """As `QuotaBook.caps`, where nothing is held by anybody; `is_within`: nothing is borrowed either."""
    bounds = {model: tree.ceiling(queue_id, model) for model in query.models}
    node = tree.queues[queue_id]
    if is_within and node.parent is not None:
        for model, bound in bounds.items():
            own = node.nominal.get(model, 0)
            bounds[model] = own if bound is None else min(own, bound)
    return {model: bound for model, bound in bounds.items() if bound is not None}


def is_within_ceilings(tree: QuotaTree, queue_id: int, query: ShapeQuery) -> bool:
    """Whether CPUs and memory of one unit are within what the queue may ever hold."""
    needs = ((CPUS, query.total.cpus_milli), (MEMORY, query.total.memory_mib))
    return all(
        need <= bound for resource, need in needs if (bound := tree.ceiling(queue_id, resource)) is not None
    )


def never_within(tree: QuotaTree, queue_id: int, query: ShapeQuery) -> tuple[str, ...]:
    """Resources of which the queue may never hold as much as one unit takes. Where models do not
    bind by themselves but by what the nodes have: those that may not hold all of it."""
    bounds = {resource: tree.ceiling(queue_id, resource) for resource in query.most}
    short = [r for r, bound in bounds.items() if bound is not None and query.most[r] > bound]
    models = exceeded_models(query, ceilings(tree, queue_id, query))
    sure = [resource for resource in short if resource in (CPUS, MEMORY) or resource in models]
    return tuple(sure or short)


def short_of(query: ShapeQuery, rooms: Mapping[str, int | None]) -> tuple[str, ...]:
    """Resources of which one unit takes more than there is room for, whichever model it takes; None for no
    bound."""
    short = [
        resource
        for resource, need in query.most.items()
        if (room := rooms.get(resource)) is not None and need > room
    ]
    if not short:
        return ()
    found = [resource for resource in short if resource in (CPUS, MEMORY)]
    caps = {model: room for model in query.models if (room := rooms.get(model)) is not None}
    return (*found, *exceeded_models(query, caps))


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
