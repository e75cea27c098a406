"""What is free where: nodes with what is held on them, and fields over them.

A cycle takes places here while it plans and gives them back at its end, so that nothing is copied
and the World is left as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from service.admission.differences import NodeChanges
from service.admission.held.holders import Holders
from service.admission.held.holds import Taken
from service.admission.nodes.binding import Binding, find_binding
from service.admission.nodes.field import Field
from service.admission.nodes.filters import Filter
from service.admission.nodes.order import NodeOrder
from service.admission.nodes.query import ShapeQuery, compile_query
from service.admission.nodes.state import NodeState
from service.admission.nodes.topology import domain_of, path_of
from service.admission.world import Configuration, Node, Pool
from service.domain.shape import Shape

#: Fields above this number are forgotten between cycles and made again when they are asked for.
MAX_FIELDS = 2000


class Mark(NamedTuple):
    """Stands for what a cycle has taken and lent so far: how often, and the last of it."""

    size: int
    last: tuple[Taken, bool] | None


class Capacity:
    """Nodes of one configuration. `is_ideal`: as if everything were idle, up and healthy."""

    def __init__(self, configuration: Configuration, *, is_ideal: bool = False) -> None:
        self.pools: Mapping[int, Pool] = configuration.pools
        self._is_ideal = is_ideal
        nodes = sorted((path_of(node, self.pools), node.id) for node in configuration.nodes.values())
        self._order = NodeOrder(path for path, _ in nodes)
        self.nodes = {node_id: self._state(configuration.nodes[node_id]) for _, node_id in nodes}
        self._fields: dict[tuple[tuple[Filter, ...], str | None], Field] = {}
        self._queries: dict[int, ShapeQuery] = {}
        #: What a cycle has taken, and what it has lent of what is kept (True), to be undone backwards.
        self._journal: list[tuple[Taken, bool]] = []
        self._takes = 0
        #: Stands for what is lent: another one whenever something has become free that was not before. By
        #: entry of the journal, which one it was before.
        self._lent = self._lends = 0
        self._lent_before: list[int] = []
        self._set_free: list[Taken] = []
        #: What is kept for waiting units, by unit: it is not free.
        self._kept: dict[int, tuple[Taken, ...]] = {}
        #: Whether shapes found a place, and how much their fields had shrunk or grown then: with what is kept
        #: (True), and without it.
        self._answers: dict[tuple[int, bool], tuple[bool, int]] = {}
        #: Where shapes had a place when it was sought last: by node, how many members.
        self.witnesses: dict[int, tuple[tuple[int, int], ...]] = {}
        #: What bound shapes, and how much their fields had grown and shrunk then.
        self._bindings: dict[int, tuple[tuple[int, int], Binding]] = {}

    def follow(self, changes: NodeChanges, holders: Holders | None = None) -> bool:
        """Go on with other nodes of the same pools; False, and the capacity is worth nothing, if another one
        must be made: there is no number left for a node, or one whose GPUs any group may take that names no
        model. `holders`: who holds what on nodes that are new here."""
        kinds = self._kinds_by_any()
        for node in (*changes.gone, *changes.rebuilt):
            self._order.remove(path_of(self.nodes[node.id].node, self.pools))
        if not all(self._order.add(path_of(node, self.pools)) for node in (*changes.rebuilt, *changes.new)):
            return False
        for node in changes.gone:
            self._leave(self.nodes.pop(node.id))
        for node in (*changes.states, *changes.rebuilt):
            before, after = self.nodes[node.id], self._state(node)
            after.hold_as(before)
            self.nodes[node.id] = after
            self._leave(before)
            self._enter(after)
        for node in changes.new:
            state = self.nodes[node.id] = self._state(node)
            for holder in holders.on_node(node.id) if holders is not None else ():
                state.hold(holder.taken.devices, holder.taken.cpus_milli, holder.taken.memory_mib)
            state.settle()
            self._enter(state)
        return kinds == self._kinds_by_any()

    def _state(self, node: Node) -> NodeState:
        path = path_of(node, self.pools)
        return NodeState(node, rank=self._order.rank(path), path=path[1], is_ideal=self._is_ideal)

    def _enter(self, state: NodeState) -> None:
        for (_, level), field in self._fields.items():
            domain = domain_of(state.node, self.pools, level)
            if domain is not None and field.add(state, domain):
                field.grown += 1

    def _leave(self, state: NodeState) -> None:
        for membership in state.memberships:
            membership.field.remove(membership)
            membership.field.shrunk += 1

    def _kinds_by_any(self) -> dict[Filter, Set[tuple[str, int]]]:
        """The kinds of GPUs of which roles choose that name no model."""
        return {
            filters[0]: {kind for kind, nodes in field.kinds.items() if nodes}
            for (filters, _), field in self._fields.items()
            if len(filters) == 1 and filters[0].has_gpus and not filters[0].models
        }

    def field(self, filters: Iterable[Filter], level: str | None = None) -> Field:
        """The nodes that one of `filters` allows, by domain of `level`, made when first asked for."""
        key = (tuple(sorted(set(filters))), level)
        known = self._fields.get(key)
        if known is None:
            known = self._fields[key] = Field(key[0], level, self.pools)
            for state in self.nodes.values():
                domain = domain_of(state.node, self.pools, level)
                if domain is not None:
                    known.add(state, domain)
        return known

    def can_resize(self, node_id: int) -> bool:
        """Whether the node's launcher starts and stops single members of a group that runs."""
        return self.pools[self.nodes[node_id].node.pool_id].can_resize

    def query(self, shape_id: int, shape: Shape) -> ShapeQuery:
        """The shape in terms of this capacity's fields; an elastic one in its smallest size."""
        known = self._queries.get(shape_id)
        if known is None:
            known = self._queries[shape_id] = compile_query(self, shape.at_least())
        return known

    def hold(self, taken: Taken) -> None:
        self._change(taken, is_release=False)
        for field in self._fields_of(taken):
            field.shrunk += 1

    def release(self, taken: Taken) -> None:
        self._change(taken, is_release=True)
        for field in self._fields_of(taken):
            field.grown += 1

    def _fields_of(self, taken: Taken) -> list[Field]:
        state = self.nodes.get(taken.node_id)
        return [] if state is None else [membership.field for membership in state.memberships]

    def keep(self, kept: Mapping[int, tuple[Taken, ...]]) -> None:
        """Keep these places for these waiting units, and nothing else."""
        before, self._kept = self._kept, dict(kept)
        moved = [
            (before.get(unit_id, ()), kept.get(unit_id, ()))
            for unit_id in {**before, **kept}
            if before.get(unit_id) is not kept.get(unit_id)
        ]
        for old, new in moved:
            for taken in dict.fromkeys(old).keys() - new:
                self.release(taken)
        for old, new in moved:
            for taken in dict.fromkeys(new).keys() - old:
                self.hold(taken)

    @property
    def kept(self) -> Mapping[int, tuple[Taken, ...]]:
        return self._kept

    def take(self, those: Iterable[Taken]) -> None:
        """Hold until `give_back`."""
        mark = len(self._journal)
        for taken in those:
            self._note(taken, is_lent=False)
            self._takes += 1
        self._change_all((taken, False) for taken, _ in self._journal[mark:])

    def lend(self, kept: Iterable[Taken]) -> int:
        """Free what is kept, until `give_back`, or until `undo` with what this returns."""
        mark = len(self._journal)
        for taken in kept:
            self._note(taken, is_lent=True)
            self._set_lent()
        self._change_all((taken, True) for taken, _ in self._journal[mark:])
        return mark

    def set_free(self, kept: Iterable[Taken]) -> None:
        """As `lend`, for all that is asked from now on."""
        kept = tuple(kept)
        self.lend(kept)
        self._set_free.extend(kept)
        for taken in kept:
            for field in self._fields_of(taken):
                field.grown += 1

    def undo(self, mark: int) -> None:
        """Everything that was taken and lent since `mark`."""
        undone = self._journal[mark:]
        if not undone:
            return
        self._lent = self._lent_before[mark]
        del self._journal[mark:], self._lent_before[mark:]
        self._takes -= sum(not is_lent for _, is_lent in undone)
        self._change_all((taken, not is_lent) for taken, is_lent in reversed(undone))

    def put_back(self, taken: Taken) -> None:
        """What was taken is free again, before `give_back`."""
        position = self._journal.index((taken, False))
        del self._journal[position], self._lent_before[position]
        self._takes -= 1
        self._change(taken, is_release=True)
        self._set_lent()

    def _note(self, taken: Taken, *, is_lent: bool) -> None:
        self._journal.append((taken, is_lent))
        self._lent_before.append(self._lent)

    @property
    def mark(self) -> Mark:
        return Mark(len(self._journal), self._journal[-1] if self._journal else None)

    def changed_since(self, mark: Mark) -> Set[int] | None:
        """Nodes of which something was taken or lent since; None if what was done before was undone."""
        size, last = mark
        if size > len(self._journal) or (size and self._journal[size - 1] is not last):
            return None
        return {taken.node_id for taken, _ in self._journal[size:]}

    def _set_lent(self) -> None:
        self._lends += 1
        self._lent = self._lends

    def imagine(self, those: Iterable[Taken], *, is_free: bool) -> None:
        """As if what somebody holds were free, until the caller says the opposite."""
        self._change_all((taken, is_free) for taken in those)

    def give_back(self) -> None:
        """End everything that was taken or lent: nothing has grown by that. What was set free is kept again,
        until that is committed."""
        self.undo(0)
        for taken in self._set_free:
            for field in self._fields_of(taken):
                field.shrunk += 1
        self._set_free.clear()

    @property
    def is_in_use(self) -> bool:
        """Whether a cycle has taken something that it may give back."""
        return self._takes > 0

    @property
    def lent(self) -> int:
        """The same as before, if nothing is free now that was not then: what was too little still is."""
        return self._lent

    @property
    def takes(self) -> int:
        """How much a cycle has taken so far."""
        return self._takes

    def remember(self, shape_id: int, query: ShapeQuery, *, has_place: bool, is_lent: bool = False) -> None:
        """Whether the shape found a place, whatever the quota; `is_lent`: with everything that is kept for
        others. Good beyond the cycle only if the cycle has taken nothing yet: what it took may be given
        back."""
        if not self._takes:
            stamp = query.shrunk() if has_place else query.grown()
            self._answers[shape_id, is_lent or not self._kept] = (has_place, stamp)

    def find_answer(self, shape_id: int, query: ShapeQuery, *, is_lent: bool = False) -> bool | None:
        """What was remembered, if it still must be so; None if that is not known."""
        has_place, stamp = self._answers.get((shape_id, is_lent or not self._kept), (False, -1))
        if has_place:
            return True if not self._takes and stamp == query.shrunk() else None
        return False if stamp == query.grown() else None

    def binding(self, shape_id: int, query: ShapeQuery) -> Binding:
        """What binds a shape for which the sums suffice. Kept beyond the cycle as answers are: it
        takes a look at every node."""
        if self._takes:
            return find_binding(query)
        stamp = query.grown(), query.shrunk()
        known = self._bindings.get(shape_id)
        if known is None or known[0] != stamp:
            known = self._bindings[shape_id] = stamp, find_binding(query)
        return known[1]

    def forget_fields(self) -> bool:
        """Bound what rare filters (a named node) leave behind. True if they were forgotten: new ones begin
        to count anew how much they grow and shrink."""
        if len(self._fields) <= MAX_FIELDS:
            return False
        self._fields.clear()
        self._queries.clear()
        self._answers.clear()
        self.witnesses.clear()
        self._bindings.clear()
        for state in self.nodes.values():
            state.memberships.clear()
        return True

    def _change(self, taken: Taken, *, is_release: bool) -> None:
        self._change_all([(taken, is_release)])

    def _change_all(self, changes: Iterable[tuple[Taken, bool]]) -> None:
        """Hold and release (True), one after the other; each node is counted anew once, in a field when that
        is read."""
        changed: dict[int, NodeState] = {}
        for (node_id, devices, cpus_milli, memory_mib), is_release in changes:
            state = self.nodes.get(node_id)
            if state is None:
                # The node left the configuration under a unit that runs there.
                continue
            changed[node_id] = state
            if is_release:
                state.release(devices, cpus_milli, memory_mib)
            else:
                state.hold(devices, cpus_milli, memory_mib)
        for state in changed.values():
            state.settle()
            for membership in state.memberships:
                membership.changed[state.node.id] = membership
