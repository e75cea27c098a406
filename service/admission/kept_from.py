"""Who keeps the places that a shape would find if nothing were kept for anybody."""

from __future__ import annotations

from service.admission.claims import ClaimBook
from service.admission.kept_quota import Stopped
from service.admission.placement import place_gang, place_members
from service.admission.plan import Blocker
from service.admission.query import ShapeQuery
from service.admission.quota_blockers import quota_scope
from service.admission.resident import World
from service.admission.world import Queue
from service.domain.reasons import Code


def explain_kept(world: World, query: ShapeQuery, claims: ClaimBook) -> tuple[Blocker, ...]:
    """For a shape that has a place only where all that is kept is lent, as the caller has done. `until`: when
    the last of these claims is due; without it at least one has no date."""
    if query.shape.is_gang:
        shares = place_gang(world.capacity, query, caps={}) or ()
    else:
        shares = place_members(world.capacity, query, caps={}, want=1)
    nodes = {share.node_id for share in shares}
    found = [
        claim
        for claim in claims
        if any(taken.node_id in nodes for taken in claims.taken.get(claim.unit_id, ()))
    ]
    dates = [claim.due_at for claim in found if claim.due_at is not None]
    scope = {}
    if dates and len(dates) == len(found):
        scope["until"] = max(dates).isoformat(timespec="seconds")
    holders = tuple(dict.fromkeys(world.pending[claim.unit_id].public_id for claim in found))
    return (Blocker(code=Code.HELD_FOR_CLAIM, scope=scope, holders=holders),)


def quota_kept(world: World, queue: Queue, query: ShapeQuery, stopped: Stopped) -> Blocker:
    """For a class that would have places and quota, if others did not need the quota at their date. `have`:
    what they leave."""
    claim, resource, _ = stopped
    scope = {**quota_scope(queue, resource), "of": "quota"}
    if claim.due_at is not None:
        scope["until"] = claim.due_at.isoformat(timespec="seconds")
    return Blocker(
        code=Code.HELD_FOR_CLAIM,
        need=query.most[resource],
        have_key=_left_key(queue.id, stopped),
        scope=scope,
        holders=(world.pending[claim.unit_id].public_id,),
    )


def kept_numbers(queue_id: int, stopped: Stopped) -> dict[str, int]:
    """The shared number that this names."""
    return {_left_key(queue_id, stopped): stopped.left}


def _left_key(queue_id: int, stopped: Stopped) -> str:
    return f"left:{queue_id}:{stopped.resource}:{stopped.claim.unit_id}"
