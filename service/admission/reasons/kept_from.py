"""Who keeps the places that a shape would find if nothing were kept for anybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from service.admission.claims.book import ClaimBook
from service.admission.claims.held_for import held_for
from service.admission.claims.kept_quota import Stopped
from service.admission.held.holds import Taken, taken_by
from service.admission.nodes.query import ShapeQuery
from service.admission.placement.placement import place_gang, place_members
from service.admission.placement.scratch import Share
from service.admission.plan import Blocker
from service.admission.quota.blockers import quota_scope
from service.admission.resident import World
from service.admission.world import Queue
from service.domain.reasons import Code


def explain_kept(
    world: World,
    query: ShapeQuery,
    claims: ClaimBook,
    *,
    kept: Mapping[int, tuple[Taken, ...]],
    is_next: bool,
) -> tuple[Blocker, ...]:
    """For a shape that has a place only where all that was kept is lent, as the caller has done. `is_next`:
    it will have one beside what is `kept` once the cycle is committed: what is kept for nobody any more, or
    was kept elsewhere when the shape was tried, is free for the next one."""
    nodes = {share.node_id for share in find_place(world, query)}
    found = [claim for claim in claims if any(each.node_id in nodes for each in kept.get(claim.unit_id, ()))]
    if not found or is_next:
        return (Blocker(code=Code.PENDING_EVALUATION),)
    # Of equals each has its place where its own is kept, wherever that is.
    whole = [
        claim.unit_id
        for claim in claims
        if kept.get(claim.unit_id)
        == taken_by(claim.places, world.shapes[world.pending[claim.unit_id].shape_id])
    ]
    return (held_for(world, found, whole=whole),)


def find_place(world: World, query: ShapeQuery) -> Sequence[Share]:
    """As things are now, whatever the quota."""
    if query.shape.is_gang:
        return place_gang(world.capacity, query, caps={}) or ()
    return place_members(world.capacity, query, caps={}, want=1)


@contextmanager
def nothing_else_kept(world: World, kept: Mapping[int, tuple[Taken, ...]]) -> Iterator[None]:
    """As if all of this were kept, and nothing else, where all that was kept is lent."""
    taken = [each for of_one in kept.values() for each in of_one]
    world.capacity.imagine(taken, is_free=False)
    try:
        yield
    finally:
        world.capacity.imagine(taken, is_free=True)


def quota_kept(world: World, queue: Queue, query: ShapeQuery, stopped: Stopped, *, of: int) -> Blocker:
    """For a class, or a unit that grows (`of` which), that would have quota, if others did not need it at
    their date. `have`: what they leave."""
    claim, resource = stopped.claim, stopped.resource
    return held_for(
        world,
        [claim],
        need=query.most[resource],
        have_key=_left_key(queue.id, stopped, of),
        scope={**quota_scope(queue, resource), "of": "quota"},
    )


def kept_numbers(queue_id: int, stopped: Stopped, *, of: int) -> dict[str, int]:
    """The number that this names: which claims are counted beside this one is not the same for all."""
    return {_left_key(queue_id, stopped, of): stopped.left}


def _left_key(queue_id: int, stopped: Stopped, of: int) -> str:
    return f"left:{queue_id}:{of}:{stopped.resource}:{stopped.claim.unit_id}"
