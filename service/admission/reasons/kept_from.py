"""Who keeps the places that a shape would find if nothing were kept for anybody."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from service.admission.claims.book import ClaimBook
from service.admission.claims.held_for import held_for
from service.admission.claims.kept_quota import Stopped
from service.admission.held.holds import Taken, taken_by
from service.admission.nodes.query import ShapeQuery
from service.admission.placement.placement import place_gang, place_members
from service.admission.plan import Blocker
from service.admission.quota.blockers import quota_scope
from service.admission.resident import World
from service.admission.world import Queue
from service.domain.reasons import Code


def explain_kept(
    world: World, query: ShapeQuery, claims: ClaimBook, *, taken: Mapping[int, Collection[Taken]]
) -> tuple[Blocker, ...]:
    """For a shape that has a place only where all that is kept is lent, as the caller has done: what is
    `taken` for each unit. What is kept for nobody any more is free for the next cycle."""
    if query.shape.is_gang:
        shares = place_gang(world.capacity, query, caps={}) or ()
    else:
        shares = place_members(world.capacity, query, caps={}, want=1)
    nodes = {share.node_id for share in shares}
    found = [claim for claim in claims if any(each.node_id in nodes for each in taken.get(claim.unit_id, ()))]
    if not found:
        return (Blocker(code=Code.PENDING_EVALUATION),)
    whole = [
        claim.unit_id
        for claim in found
        if taken[claim.unit_id] == taken_by(claim.places, world.shapes[world.pending[claim.unit_id].shape_id])
    ]
    return (held_for(world, found, whole=whole),)


def quota_kept(world: World, queue: Queue, query: ShapeQuery, stopped: Stopped) -> Blocker:
    """For a class that would have places and quota, if others did not need the quota at their date. `have`:
    what they leave."""
    claim, resource = stopped.claim, stopped.resource
    return held_for(
        world,
        [claim],
        need=query.most[resource],
        have_key=_left_key(queue.id, stopped),
        scope={**quota_scope(queue, resource), "of": "quota"},
    )


def kept_numbers(queue_id: int, stopped: Stopped) -> dict[str, int]:
    """The shared number that this names."""
    return {_left_key(queue_id, stopped): stopped.left}


def _left_key(queue_id: int, stopped: Stopped) -> str:
    return f"left:{queue_id}:{stopped.resource}:{stopped.claim.unit_id}"
