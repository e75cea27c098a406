"""Why a shape finds no place: each sum that is short, or that the pieces do not make a whole, and
what else would be there if nodes and devices were well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nsmallest

from service.admission.nodes.binding import Binding, best_domain
from service.admission.nodes.field import Field
from service.admission.nodes.filters import Filter, filter_of
from service.admission.nodes.query import Check, RoleQuery, ShapeQuery
from service.admission.plan import Blocker
from service.domain.reasons import Code

_INSUFFICIENT = {
    "gpus": Code.INSUFFICIENT_GPUS,
    "cpus_milli": Code.INSUFFICIENT_CPU,
    "memory_mib": Code.INSUFFICIENT_MEMORY,
}
_RESOURCE = {"gpus": "gpus", "cpus_milli": "cpus", "memory_mib": "memory"}
#: So many nodes are named; a scope with more says how many there are.
_NAMED_NODES = 3


@dataclass(frozen=True, slots=True)
class Shortage:
    """A sum that does not suffice."""

    check: Check
    amount: str
    need: int
    have: int


def shortages(query: ShapeQuery) -> list[Shortage]:
    """At most one for each resource: all roles together if that is short, else the first role.
    Where no node is up at all, the first resource says enough."""
    found: dict[str, Shortage] = {}
    for check in query.checks:
        for amount in _INSUFFICIENT:
            need, have = getattr(check.need, amount), getattr(check.field, amount)()
            if need > have and amount not in found:
                found[amount] = Shortage(check, amount, need, have)
                if not available_nodes(check.field):
                    break
    return [found[amount] for amount in _INSUFFICIENT if amount in found]


def explain_missing(query: ShapeQuery) -> tuple[Blocker, ...]:
    """Blockers of a shape for some role of which there is no node at all, whatever its state; else empty."""
    return tuple(
        Blocker(code=Code.NO_MATCHING_FLAVOR, scope=scope_of(check))
        for check in query.checks
        if not check.field.members
    )


def explain_shortages(query: ShapeQuery, numbers: dict[str, int]) -> tuple[Blocker, ...]:
    """Blockers of a shape for which some sum does not suffice on the nodes as they are now, else
    empty; shared amounts go into `numbers`. Where nothing at all is usable, that alone is the reason."""
    short = sorted(shortages(query), key=lambda shortage: is_usable(shortage.check.field, shortage.amount))
    told = [shortage for shortage in short if is_usable(shortage.check.field, shortage.amount)]
    return (*(_insufficient(shortage, numbers) for shortage in told), *_unhealthy(query, short, numbers))


def explain_scattered(query: ShapeQuery, binding: Binding, numbers: dict[str, int]) -> tuple[Blocker, ...]:
    """Blockers of a shape for which the sums suffice and that has no place all the same."""
    lacking = Shortage(query.checks[0], binding.amount, 0, 0)
    unhealthy = _unhealthy(query, [lacking], numbers)
    if not available_nodes(lacking.check.field):
        return tuple(unhealthy)
    return (_scattered(query, binding, numbers), *unhealthy)


def scope_of(check: Check) -> dict[str, str]:
    """What an amount was counted on: models, labels, nodes that are up, and the role."""
    scope: dict[str, str] = {}
    filters = check.field.filters
    if len(filters) == 1:
        scope = _filter_scope(filters[0])
    if check.role is not None:
        scope["role"] = check.role.name
    scope["nodes"] = str(available_nodes(check.field))
    return scope


def _filter_scope(filter_: Filter) -> dict[str, str]:
    scope: dict[str, str] = {}
    if filter_.models:
        scope["models"] = ", ".join(filter_.models)
    if len(filter_.models) == 1:
        scope["flavor"] = filter_.models[0]
    if filter_.min_memory_mib:
        scope["min_memory_gib"] = str(filter_.min_memory_mib // 1024)
    if filter_.pools:
        scope["pools"] = ", ".join(filter_.pools)
    if filter_.labels:
        scope["labels"] = ", ".join(f"{label}={value}" for label, value in filter_.labels)
    return scope


def field_key(kind: str, field: Field) -> str:
    """Name of a shared number about a field's nodes."""
    return f"{kind}@{field.level}:{field.text}" if field.level else f"{kind}:{field.text}"


def _insufficient(shortage: Shortage, numbers: dict[str, int]) -> Blocker:
    key = field_key(f"free_{_RESOURCE[shortage.amount]}", shortage.check.field)
    numbers[key] = shortage.have
    return Blocker(
        code=_INSUFFICIENT[shortage.amount],
        need=shortage.need,
        have_key=key,
        scope={"resource": _RESOURCE[shortage.amount], **scope_of(shortage.check)},
    )


def _scattered(query: ShapeQuery, binding: Binding, numbers: dict[str, int]) -> Blocker:
    """Enough in sum, but not in one domain, or not node by node, or not for whole slices."""
    if binding.slices is not None:
        return slices_blocker(query, binding, numbers, code=Code.TOPOLOGY_UNSATISFIED)
    role, amount = binding.role, binding.amount
    resource, level = _RESOURCE[amount], query.shape.required
    need, check = getattr(query.total, amount), query.checks[0]
    scope: dict[str, str] = {"resource": resource}
    if not binding.is_whole:
        need, check = getattr(role.whole, amount), _check_of(query, role)
        scope["role"] = query.shape.roles[role.position].name
    if level is not None:
        key = field_key(f"best_{resource}", role.fields[0])
        numbers[key] = best_domain(role, amount)
        scope = {"level": level, **scope_of(check), **scope}
        return Blocker(code=Code.TOPOLOGY_UNSATISFIED, need=need, have_key=key, scope=scope)
    key = field_key(f"free_{resource}", check.field)
    numbers[key] = getattr(check.field, amount)()
    scope = {"per_member": str(getattr(role.requests, amount)), **scope_of(check), **scope}
    return Blocker(code=Code.FRAGMENTED, need=need, have_key=key, scope=scope)


def slices_blocker(query: ShapeQuery, binding: Binding, numbers: dict[str, int], *, code: Code) -> Blocker:
    """Room for members, but not for enough whole slices of the role: how many it needs, and has."""
    role = query.shape.roles[binding.role.position]
    assert role.slice is not None
    assert binding.slices is not None
    requests = role.requests
    each = f"{role.slice.size}x{requests.gpus}:{requests.cpus_milli}:{requests.memory_mib}"
    kind = f"slices_{code.value}_{role.slice.level}_{each}_of_{role.count}"
    key = "|".join((field_key(kind, binding.role.fields[0]), *binding.role.models[1:]))
    numbers[key] = binding.slices
    scope = {
        "resource": "slices",
        "level": role.slice.level,
        "slice": str(role.slice.size),
        **scope_of(_check_of(query, binding.role)),
    }
    if query.shape.required is not None:
        scope["within"] = query.shape.required
    if len(query.roles) > 1:
        scope["role"] = role.name
    return Blocker(code=code, need=role.count // role.slice.size, have_key=key, scope=scope)


def _check_of(query: ShapeQuery, role: RoleQuery) -> Check:
    """The sum over the nodes of this role."""
    filters = (filter_of(query.shape.roles[role.position], query.shape.terms),)
    return next((check for check in query.checks if check.field.filters == filters), query.checks[0])


def _unhealthy(query: ShapeQuery, short: list[Shortage], numbers: dict[str, int]) -> Iterator[Blocker]:
    """Nodes that are down or cordoned and devices that are not well, if with them the sums would
    suffice, or if there is nothing else."""
    for shortage in short:
        field, amount = shortage.check.field, shortage.amount
        stocks = field.stocks.values()
        held_back = sum(getattr(stock, f"held_back_{amount}") for stock in stocks)
        unhealthy = sum(stock.unhealthy_gpus for stock in stocks) if amount == "gpus" else 0
        is_alone = not is_usable(field, amount)
        is_told = is_alone or shortage.need <= shortage.have + held_back + unhealthy
        if is_told and (held_back or (is_alone and not unhealthy)):
            key = field_key(f"held_back_{_RESOURCE[amount]}", field)
            numbers[key] = held_back
            scope = {"resource": _RESOURCE[amount], **scope_of(shortage.check), **_down(field)}
            yield Blocker(code=Code.NODES_UNAVAILABLE, need=_need(query, shortage), have_key=key, scope=scope)
        if is_told and unhealthy:
            key = field_key("unhealthy_gpus", field)
            numbers[key] = unhealthy
            yield Blocker(
                code=Code.DEVICES_UNHEALTHY,
                need=_need(query, shortage),
                have_key=key,
                scope={"resource": "gpus", **scope_of(shortage.check)},
            )
        if is_alone or held_back or unhealthy:
            return


def _need(query: ShapeQuery, shortage: Shortage) -> int:
    return shortage.need or int(getattr(query.total, shortage.amount))


def available_nodes(field: Field) -> int:
    return len(field.members) - len(field.unavailable)


def is_usable(field: Field, amount: str) -> bool:
    """Whether any node is up, and of GPUs one that is free, or that somebody will give back."""
    if amount != "gpus" or field.gpus():
        return available_nodes(field) > 0
    up = (membership for membership in field.members.values() if membership.state.is_available)
    return any(not membership.eligible.isdisjoint(membership.state.held) for membership in up)


def _down(field: Field) -> dict[str, str]:
    names = ", ".join(field.unavailable[node_id] for node_id in nsmallest(_NAMED_NODES, field.unavailable))
    more = len(field.unavailable) - _NAMED_NODES
    return {"unavailable": f"{names} and {more} more" if more > 0 else names}
