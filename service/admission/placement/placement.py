"""Where a unit goes: a whole gang within one domain of one pool, or members of an independent
group one by one.

Levels: a gang that would rather be in one domain of some level is tried there first, then in one of the
next wider level, up to the required one, and last wherever its rules allow. Avoided nodes come after all
of that: they failed it before.

Models: the first model in the order of preference that can seat the whole role is taken for all
its members; only if no choice of one model for each role has room, members of a role are spread
over several of its models. A role that names no model takes any, by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product

from service.admission.nodes.capacity import Capacity
from service.admission.nodes.field import Field, Stock
from service.admission.nodes.query import RoleQuery, ShapeQuery
from service.admission.nodes.topology import Domain, Rung
from service.admission.placement.packing import pick, pour
from service.admission.placement.scratch import Scratch, Share, share_of
from service.admission.placement.search import Search
from service.admission.placement.slices import seat_in_domain
from service.admission.placement.spreading import spread
from service.domain.queue import Filling

#: Choices of one model for each role that are tried before models are mixed.
MAX_CHOICES = 64

_NO_NODES: frozenset[int] = frozenset()


def place_gang(
    capacity: Capacity,
    query: ShapeQuery,
    *,
    caps: Mapping[str, int],
    avoided: frozenset[int] = frozenset(),
) -> tuple[Share, ...] | None:
    """Places for every member, or None. `caps`: GPUs by model that the queue may still take.
    Nodes in `avoided` are used only when there is no place without them."""
    if not query.is_single and not (all(role.may_seat_all() for role in query.roles) and query.has_sums()):
        return None
    for left_out in (avoided, _NO_NODES) if avoided else (_NO_NODES,):
        for rung in query.ladder:
            at_level = query.at_level(capacity, rung.level)
            if places := _place_gang(at_level, capacity, caps=caps, avoided=left_out, rung=rung):
                return places
        if places := _place_gang(query, capacity, caps=caps, avoided=left_out):
            return places
    return None


def place_members(
    capacity: Capacity,
    query: ShapeQuery,
    *,
    caps: Mapping[str, int],
    want: int,
    avoided: frozenset[int] = frozenset(),
) -> tuple[Share, ...]:
    """Places for up to `want` members of an independent group, as many as there are."""
    (role,) = query.roles
    scratch = Scratch(capacity.nodes, caps, avoided)
    seat = spread if query.shape.terms.filling is Filling.SPREAD else pour
    left = want
    for _ in range(2 if avoided else 1):
        for choice, field in enumerate(role.fields):
            for domain in sorted(field.stocks):
                if left:
                    stock = field.stocks[domain]
                    left -= seat(role, choice, field=field, stock=stock, scratch=scratch, want=left)
        scratch.avoided = frozenset()
    return tuple(scratch.shares)


def _place_gang(
    query: ShapeQuery,
    capacity: Capacity,
    *,
    caps: Mapping[str, int],
    avoided: frozenset[int],
    rung: Rung | None = None,
) -> tuple[Share, ...] | None:
    """Places in one domain of the level by which the query has its nodes."""
    if query.is_single and query.shape.terms.filling is Filling.PACK:
        return _place_one(query, caps=caps, avoided=avoided, rung=rung)
    scratch = Scratch(capacity.nodes, caps, avoided)
    for choice in islice(product(*(range(len(role.models)) for role in query.roles)), MAX_CHOICES):
        if not _is_within_caps(query, choice, scratch):
            continue
        for domain in _tightest_first(query, choice, rung):
            for is_spread, order in _ways(query):
                if _seat_all(query, choice, domain=domain, order=order, scratch=scratch, is_spread=is_spread):
                    return tuple(scratch.shares)
                scratch.undo(0)
    if len(query.roles) == 1 and len(query.roles[0].models) == 1:
        return None
    return _place_mixed(query, scratch, rung)


def _place_one(
    query: ShapeQuery, *, caps: Mapping[str, int], avoided: frozenset[int], rung: Rung | None
) -> tuple[Share, ...] | None:
    """As any gang, of one member alone: the shortest way to the same place."""
    (role,) = query.roles
    for model, field in zip(role.models, role.fields, strict=True):
        gpus = role.requests.gpus
        if gpus and gpus > caps.get(model, gpus):
            continue
        for stock in _tightest_stocks(role, field, rung):
            membership = pick(role, field=field, stock=stock, avoided=avoided)
            if membership is not None:
                return (share_of(role, model, membership, count=1, free=membership.state.free),)
    return None


def _place_mixed(query: ShapeQuery, scratch: Scratch, rung: Rung | None) -> tuple[Share, ...] | None:
    """Several models for one role, or roles that stand in each other's way."""
    domains = {domain for role in query.roles for field in role.fields for domain in field.stocks}
    for domain in sorted(domains):
        if rung is not None and not rung.allows(domain):
            continue
        if not all(role.may_seat_all_in(domain) and _may_hold(role, domain) for role in query.roles):
            continue
        if _pack_mixed(query, domain, scratch):
            return tuple(scratch.shares)
        scratch.undo(0)
        if Search(query.roles, domain, scratch).run():
            return tuple(scratch.shares)
        scratch.undo(0)
    return None


def _is_within_caps(query: ShapeQuery, choice: tuple[int, ...], scratch: Scratch) -> bool:
    gpus: dict[str, int] = {}
    for role, position in zip(query.roles, choice, strict=True):
        model = role.models[position]
        gpus[model] = gpus.get(model, 0) + role.count * role.requests.gpus
    return all(amount <= scratch.caps.get(model, amount) for model, amount in gpus.items())


def _tightest_first(query: ShapeQuery, choice: tuple[int, ...], rung: Rung | None) -> Iterator[Domain]:
    """Domains that may hold each role, by sums and by what each node has; those with the least free first."""
    (first, *others) = [
        (role, role.fields[position]) for role, position in zip(query.roles, choice, strict=True)
    ]
    for stock in _tightest_stocks(*first, rung):
        domain = stock.domain
        if all(_may_hold_all(role, field, field.stocks.get(domain)) for role, field in others):
            yield domain


def _tightest_stocks(role: RoleQuery, field: Field, rung: Rung | None) -> Iterator[Stock]:
    """The same of one role."""
    if role.requests.gpus and role.most_seats(field) < role.count:
        return
    # Where there is one domain alone, nobody has to sort them.
    is_one = len(field.stocks) == 1
    for stock in tuple(field.stocks.values()) if is_one else field.rooms.with_room(role.whole.gpus):
        if (rung is None or rung.allows(stock.domain)) and _may_hold_all(role, field, stock):
            yield stock


def _may_hold_all(role: RoleQuery, field: Field, stock: Stock | None) -> bool:
    if stock is None or not stock.holds(role.whole):
        return False
    return not role.requests.gpus or role.seats(field, stock.domain) >= role.count


def _ways(query: ShapeQuery) -> Iterator[tuple[bool, tuple[int, ...]]]:
    """Whether members are spread, and the order of roles. Where the queue spreads its groups and that
    fails, a gang is packed all the same."""
    for is_spread in (True, False) if query.shape.terms.filling is Filling.SPREAD else (False,):
        yield from ((is_spread, order) for order in _orders(len(query.roles)))


def _orders(count: int) -> Iterable[tuple[int, ...]]:
    """Orders in which roles are placed: the planned one, and the opposite."""
    forward = tuple(range(count))
    return (forward,) if count == 1 else (forward, forward[::-1])


def _seat_all(
    query: ShapeQuery,
    choice: tuple[int, ...],
    *,
    domain: Domain,
    order: tuple[int, ...],
    scratch: Scratch,
    is_spread: bool,
) -> bool:
    for index in order:
        role, model = query.roles[index], choice[index]
        seated = seat_in_domain(
            role, model, domain=domain, scratch=scratch, want=role.count, is_spread=is_spread
        )
        if seated < role.count:
            return False
    return True


def _pack_mixed(query: ShapeQuery, domain: Domain, scratch: Scratch) -> bool:
    for role in query.roles:
        left = role.count
        for choice in range(len(role.models)):
            left -= seat_in_domain(role, choice, domain=domain, scratch=scratch, want=left)
        if left:
            return False
    return True


def _may_hold(role: RoleQuery, domain: Domain) -> bool:
    need = role.whole
    gpus = cpus_milli = memory_mib = 0
    for field in role.fields:
        stock = field.stocks.get(domain)
        if stock is not None:
            gpus += stock.gpus
            cpus_milli += stock.cpus_milli
            memory_mib += stock.memory_mib
    return need.gpus <= gpus and need.cpus_milli <= cpus_milli and need.memory_mib <= memory_mib
