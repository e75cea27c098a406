"""Who keeps the places that a shape would find if nothing were kept for anybody."""

from __future__ import annotations

from service.admission.claims import ClaimBook
from service.admission.placement import place_gang, place_members
from service.admission.plan import Blocker
from service.admission.query import ShapeQuery
from service.admission.resident import World
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
