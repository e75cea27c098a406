"""Why a shape could not be placed even if everything were idle, up and healthy."""

from __future__ import annotations

from service.admission.nodes.binding import find_binding, most_in_one_domain
from service.admission.nodes.query import Check, RoleQuery, ShapeQuery
from service.admission.plan import Blocker
from service.admission.quota.blockers import ceiling_key, quota_scope
from service.admission.quota.book import never_within
from service.admission.quota.tree import QuotaTree
from service.admission.reasons.findings import field_key, scope_of, shortages, slices_blocker
from service.admission.state.feasible import Feasibility
from service.admission.waiting.terms import terms_of
from service.admission.world import Queue
from service.domain.reasons import Code
from service.domain.shape import RoleShape, Shape

_AMOUNTS = (("gpus", "gpus"), ("cpus_milli", "cpus"), ("memory_mib", "memory"))


def explain_never(
    feasibility: Feasibility,
    shape_id: int,
    *,
    shape: Shape,
    tree: QuotaTree,
    queue: Queue,
    numbers: dict[str, int],
) -> tuple[Blocker, ...]:
    """Empty if the queue could ever admit one unit of the shape."""
    if feasibility.fits(shape_id, shape, tree, queue.id):
        return ()
    if feasibility.fits_nodes(shape_id, shape):
        return _beyond_quota(tree, queue, feasibility.query(shape_id, shape), numbers)
    query = feasibility.query(shape_id, shape)
    missing = tuple(
        Blocker(
            code=Code.NO_MATCHING_FLAVOR,
            scope={**scope_of(check), **_terms_scope(queue, shape.roles[min(check.positions)])},
        )
        for check in query.checks
        if not check.field.members
    )
    if missing:
        return (*missing, Blocker(code=Code.NEVER_FITS, scope={"resource": "gpus"}))
    return (_too_large(query, numbers),)


def _terms_scope(queue: Queue, role: RoleShape) -> dict[str, str]:
    """What the queue allows and the role asks for, if not everything is allowed."""
    terms = terms_of(queue)
    if (terms.flavors, terms.pools) == (None, None):
        return {}
    scope = {"queue": queue.name, "models": ", ".join(role.models)}
    if terms.flavors is not None:
        scope["flavors"] = ", ".join(terms.flavors)
    if terms.pools is not None:
        scope["pools"] = ", ".join(terms.pools)
    return scope


def _beyond_quota(
    tree: QuotaTree, queue: Queue, query: ShapeQuery, numbers: dict[str, int]
) -> tuple[Blocker, ...]:
    """Each resource of which the queue may never hold enough, even if it held nothing else."""
    found = never_within(tree, queue.id, query)
    for resource in found:
        numbers[ceiling_key(queue.id, resource)] = tree.ceiling(queue.id, resource) or 0
    return tuple(
        Blocker(
            code=Code.NEVER_FITS,
            need=query.most[resource],
            limit_key=ceiling_key(queue.id, resource),
            scope=quota_scope(queue, resource),
        )
        for resource in found
    )


def _too_large(query: ShapeQuery, numbers: dict[str, int]) -> Blocker:
    """The first amount that is too large for all nodes, for any one node, or for any one domain; or how many
    slices are too many."""
    for shortage in shortages(query):
        return _never(
            shortage.check,
            shortage.amount,
            need=shortage.need,
            have=shortage.have,
            numbers=numbers,
            of="all nodes",
        )
    check = query.checks[0]
    for role in query.roles:
        for amount, _ in _AMOUNTS:
            need, have = getattr(role.requests, amount), _largest(role, amount)
            if need > have:
                return _never(check, amount, need=need, have=have, numbers=numbers, of="one node")
    binding = find_binding(query)
    if binding.slices is not None:
        return slices_blocker(query, binding, numbers, code=Code.NEVER_FITS)
    amount = "gpus" if query.total.gpus else "cpus_milli"
    of = f"one {query.shape.required}" if query.shape.required else "one pool"
    need, have = getattr(query.total, amount), _largest_domain(query, amount)
    return _never(check, amount, need=need, have=have, numbers=numbers, of=of)


def _never(check: Check, amount: str, *, need: int, have: int, numbers: dict[str, int], of: str) -> Blocker:
    resource = dict(_AMOUNTS)[amount]
    key = field_key(f"ever_{resource}_{of.replace(' ', '_')}", check.field)
    numbers[key] = have
    return Blocker(
        code=Code.NEVER_FITS,
        need=need,
        have_key=key,
        scope={"resource": resource, "of": of, **scope_of(check)},
    )


def _largest(role: RoleQuery, amount: str) -> int:
    return max((field.largest(amount) for field in role.fields), default=0)


def _largest_domain(query: ShapeQuery, amount: str) -> int:
    return most_in_one_domain(
        {id(field): field for role in query.roles for field in role.fields}.values(), amount
    )
