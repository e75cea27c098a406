"""How many slices of a role would find room: what is told where slices keep a group out that would have
its places without them."""

from __future__ import annotations

from service.admission.nodes.field import Field
from service.admission.nodes.query import RoleQuery, ShapeQuery
from service.admission.nodes.seats import seats_now
from service.admission.nodes.topology import Domain


def role_that_lacks_slices(query: ShapeQuery) -> tuple[RoleQuery, int] | None:
    """The first role of which no domain has room for all slices, if there were no other roles, and for how
    many the best domain has. None if slices are not what binds."""
    for role in query.roles:
        if role.slices is not None and (room := slices_with_room(role)) < role.count // role.slices.size:
            return role, room
    return None


def slices_with_room(role: RoleQuery) -> int:
    """The most slices for which one domain of the required level has room, all that are asked for at most."""
    assert role.slices is not None
    wanted, size, inner = role.count // role.slices.size, role.slices.size, role.slices.fields
    most = 0
    for domain in {domain for field in role.fields for domain in field.stocks}:
        if role.is_sliced_in(domain):
            parts = {stock.domain for field in inner for stock in field.within(domain)}
            room = sum(_seats(role, inner, part) // size for part in parts)
        else:
            room = _seats(role, role.fields, domain) // size if role.has_slices_at(domain) else 0
        most = max(most, min(room, wanted))
    return most


def _seats(role: RoleQuery, fields: tuple[Field, ...], domain: Domain) -> int:
    """Members that find room on the nodes of a domain, if no others were there."""
    least = role.requests.gpus
    return sum(
        seats_now(role, field.members[node_id])
        for field in fields
        if (stock := field.stocks.get(domain)) is not None
        for bucket, rows in stock.buckets.items()
        if bucket >= least or not least
        for _, _, node_id in rows
    )
