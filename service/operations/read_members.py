"""Members of a group, one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, Engine

from service.domain.errors import NotFound
from service.domain.node import Place
from service.domain.principal import Principal
from service.domain.shape import Shape
from service.domain.status import Status
from service.domain.unit import MAX_MEMBERS, unit_id
from service.operations.read_groups import get_visible_group, reading
from service.store.event_reads import find_last_event_id
from service.store.group_reads import GroupRow
from service.store.live_reads import load_node_names
from service.store.member_ends import MemberEnd
from service.store.member_reads import UnitRow, find_newest_run, list_ends, list_unit_rows
from service.store.shapes import load_shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member. `status` is that of its unit; a member of a gang that has ended before the others
    is Succeeded or Failed, one that a running gang gets Admitted, one that it gives up Evicting. `node`
    and `devices`: its place, or where it ended."""

    member: int
    role: str
    status: Status
    attempt: int
    generation: int | None
    is_held: bool
    node: str | None
    devices: tuple[int, ...]
    exit_code: int | None
    admitted_at: datetime | None
    ended_at: datetime | None
    cause: str | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPage:
    """`next_member` is where the next page begins, None on the last."""

    members: tuple[Member, ...]
    next_member: int | None


def list_members(
    engine: Engine,
    public_id: UUID,
    *,
    principal: Principal,
    first: int = 0,
    limit: int = 100,
    statuses: Collection[Status] = (),
) -> MemberPage:
    """Members from index `first` on, with one of `statuses` if any is given. Raises NotFound."""
    with reading(engine) as conn:
        group = get_visible_group(conn, public_id, principal=principal)
        # A gang is one unit, whatever the index; for its members the status is looked at below.
        of_units = () if group.is_gang else statuses
        start = 0 if group.is_gang else first
        units = list_unit_rows(conn, group.id, first=start, limit=limit + 1, statuses=of_units)
        found = _members(conn, group, units=units, first=first)
        page: list[Member] = []
        for member in found:
            if len(page) > limit:
                break
            if not statuses or member.status in statuses:
                page.append(member)
    return MemberPage(
        members=tuple(page[:limit]), next_member=page[limit].member if len(page) > limit else None
    )


def get_member(engine: Engine, public_id: UUID, *, member: int, principal: Principal) -> Member:
    """Raises NotFound."""
    if not 0 <= member < MAX_MEMBERS:
        raise NotFound("There is no such member.")
    page = list_members(engine, public_id, principal=principal, first=member, limit=1)
    if not page.members or page.members[0].member != member:
        raise NotFound("There is no such member.")
    return page.members[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTarget:
    """Whose log: the key that its file is named by. `group_id` is internal; `last_event_id` is of the
    same instant; `has_ended`: nothing of the member's unit will run again."""

    group_id: int
    unit_id: int
    attempt: int
    generation: int
    member: int
    has_ended: bool
    last_event_id: int

    def is_same_log(self, other: LogTarget) -> bool:
        return (self.attempt, self.generation) == (other.attempt, other.generation)


def find_log(
    engine: Engine,
    public_id: UUID,
    *,
    member: int,
    principal: Principal,
    attempt: int | None = None,
    generation: int | None = None,
) -> LogTarget:
    """The newest log of a member, or that of an attempt and generation. Raises NotFound."""
    with reading(engine) as conn:
        group = get_visible_group(conn, public_id, principal=principal)
        if not 0 <= member < group.member_count:
            raise NotFound("There is no such member.")
        first = 0 if group.is_gang else member
        (unit,) = list_unit_rows(conn, group.id, first=first, limit=1)
        newest = find_newest_run(conn, unit_id(group.id, first), attempt=attempt)
        return LogTarget(
            group_id=group.id,
            unit_id=unit_id(group.id, first),
            attempt=attempt or newest[0],
            generation=generation or newest[1],
            member=member,
            has_ended=unit.ended_at is not None,
            last_event_id=find_last_event_id(conn, group.id),
        )


def _members(conn: Connection, group: GroupRow, *, units: Sequence[UnitRow], first: int) -> Iterator[Member]:
    ends = list_ends(conn, units)
    names = load_node_names(conn, sorted({place.node_id for unit in units for place in unit.places}))
    shape = load_shapes(conn, [group.shape_id])[group.shape_id]
    for unit in units:
        places = {place.member: place for place in unit.places}
        for index in _indexes(group, unit, first=first):
            yield _member(
                unit,
                index,
                role=_role_name(shape, index),
                place=places.get(index),
                end=ends.get((unit.id, index)),
                names=names,
                is_gang=group.is_gang,
            )


def _indexes(group: GroupRow, unit: UnitRow, *, first: int) -> Iterable[int]:
    """Members of the unit from `first` on. A gang that has places has the members that have one."""
    if group.is_gang and unit.places:
        return sorted(place.member for place in unit.places if place.member >= first)
    last = group.member_count - 1 if group.is_gang else unit.last_index
    return range(max(first, unit.first_index), last + 1)


def _member(
    unit: UnitRow,
    index: int,
    *,
    role: str,
    place: Place | None,
    end: MemberEnd | None,
    names: Mapping[int, str],
    is_gang: bool,
) -> Member:
    status = unit.status
    if is_gang and end is not None and unit.status in (Status.STARTING, Status.RUNNING):
        status = Status.SUCCEEDED if end.exit_code == 0 else Status.FAILED
    if unit.status is Status.RUNNING and index in unit.adding:
        status = Status.ADMITTED
    if unit.status is Status.RUNNING and index in unit.dropping:
        status = Status.EVICTING
    return Member(
        member=index,
        role=role,
        status=status,
        attempt=unit.attempt,
        generation=unit.generation,
        is_held=unit.is_held,
        node=names.get(place.node_id) if place else None,
        devices=place.devices if place else (),
        exit_code=end.exit_code if end else None,
        admitted_at=unit.admitted_at,
        ended_at=end.ended_at if end else unit.ended_at,
        cause=unit.cause,
        message=(end.detail if end and end.detail else unit.message),
    )


def _role_name(shape: Shape, member: int) -> str:
    """Members count through the roles."""
    first = 0
    for role in shape.roles:
        if member < first + role.count:
            return role.name
        first += role.count
    raise IndexError(f"the group has {first} members, not {member + 1}")
