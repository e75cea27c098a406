"""What is kept of a claim's places now: those that are free, and of CPUs and memory what is not given back
in time by those who hold the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime

from service.admission.held.holders import Holder
from service.admission.held.holds import Taken, taken_by
from service.admission.nodes.state import NodeState
from service.admission.waiting.eligibility import is_open, waits_until
from service.admission.world import PendingUnit, Queue
from service.domain.claim import Claim
from service.domain.shape import Shape


def is_entitled(claim: Claim, row: PendingUnit | None, queue: Queue | None) -> bool:
    """Whether the unit still waits and may start when its places are free."""
    if row is None or row.is_held or row.open_dependencies or not is_open(queue):
        return False
    until = waits_until(row)
    return until is None or until <= (claim.due_at or claim.made_at)


def kept_of(
    claim: Claim,
    shape: Shape,
    *,
    nodes: Mapping[int, NodeState],
    on_node: Callable[[int], Iterable[Holder]],
    taken: Mapping[int, Collection[int]],
) -> tuple[Taken, ...]:
    """By node, in the order of ids. `taken`: devices by node that other claims keep already."""
    found = (
        _kept_on(nodes[need.node_id], need, list(on_node(need.node_id)), due_at=claim.due_at, taken=taken)
        for need in taken_by(claim.places, shape)
        if need.node_id in nodes
    )
    return tuple(kept for kept in found if kept.devices or kept.cpus_milli or kept.memory_mib)


def _kept_on(
    state: NodeState,
    need: Taken,
    holders: list[Holder],
    *,
    due_at: datetime | None,
    taken: Mapping[int, Collection[int]],
) -> Taken:
    held = {device for holder in holders for device in holder.taken.devices}
    others = taken.get(need.node_id, ())
    free = tuple(d for d in need.devices if d in state.usable and d not in held and d not in others)
    leaving = list(_leaving(need, holders, due_at))
    return Taken(
        need.node_id,
        free,
        max(0, need.cpus_milli - sum(each.cpus_milli for each in leaving)),
        max(0, need.memory_mib - sum(each.memory_mib for each in leaving)),
    )


def _leaving(need: Taken, holders: Iterable[Holder], due_at: datetime | None) -> Iterator[Taken]:
    """What is given back by the claim's date, or by those who hold its devices."""
    for holder in holders:
        is_in_time = holder.frees_at is not None and (due_at is None or holder.frees_at <= due_at)
        if is_in_time or not set(need.devices).isdisjoint(holder.taken.devices):
            yield holder.taken
