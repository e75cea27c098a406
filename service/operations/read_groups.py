"""Groups for readers. To a key that may not see a group it does not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy import Connection, Engine

from service.admission.nodes.topology import path_to
from service.domain.errors import NotFound
from service.domain.principal import Principal
from service.domain.shape import Shape
from service.store import group_lists, live_reads, specs
from service.store.claim_reads import GroupClaim, find_claim
from service.store.group_lists import GroupFilter, ListKey
from service.store.group_reads import GroupRow, UnitsOf, find_group, load_units_of, units_of_new
from service.store.groups import NewGroup
from service.store.live_reads import LiveUnit, Past, Size, UsedNode
from service.store.shapes import load_shapes
from service.store.specs import StoredSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBrief:
    """A group as a list shows it. `is_own` False: its reader may know its position and size only. `held`: by
    an elastic group, if it has any members."""

    group: GroupRow
    units: UnitsOf
    shape: Shape
    is_own: bool = True
    held: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail(GroupBrief):
    """A group with everything that its owner may know. `nodes`: names by internal id."""

    spec: StoredSpec
    live: tuple[LiveUnit, ...]
    past: Past
    succeeded_members: int
    nodes: Mapping[int, str]
    is_preference_met: bool | None
    claim: GroupClaim | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    groups: tuple[GroupBrief, ...]
    next_key: ListKey | None


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction in which everything is of one instant."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as conn:
        yield conn


def get_visible_group(conn: Connection, public_id: UUID, *, principal: Principal) -> GroupRow:
    """The group, if this key may see it. Raises NotFound, with one text for both cases."""
    group = find_group(conn, public_id)
    if group is None or not principal.may_see(tenant=group.tenant, owner=group.owner):
        raise NotFound("There is no such group.")
    return group


def get_group_row(engine: Engine, public_id: UUID, *, principal: Principal) -> GroupRow:
    """A group as it was submitted. Raises NotFound."""
    with engine.connect() as conn:
        return get_visible_group(conn, public_id, principal=principal)


def get_group(engine: Engine, public_id: UUID, *, principal: Principal) -> GroupDetail:
    """One group in full. Raises NotFound."""
    with reading(engine) as conn:
        group = get_visible_group(conn, public_id, principal=principal)
        live = tuple(live_reads.list_live_attempts(conn, group.id))
        shape = load_shapes(conn, [group.shape_id])[group.shape_id]
        node_ids = sorted({place.node_id for unit in live for place in unit.places})
        nodes = live_reads.load_used_nodes(conn, node_ids)
        return GroupDetail(
            group=group,
            units=load_units_of(conn, [group.id])[group.id],
            shape=shape,
            spec=specs.load_specs(conn, [group.id])[group.id],
            live=live,
            past=live_reads.get_past(conn, group.id),
            succeeded_members=live_reads.count_succeeded_members(conn, group.id),
            nodes={node_id: node.name for node_id, node in nodes.items()},
            is_preference_met=_is_preference_met(shape, nodes.values()),
            claim=find_claim(conn, group.id),
        )


def detail_of_new(group: NewGroup) -> GroupDetail:
    """A group that was submitted a moment ago, without asking for it again."""
    spec, shape = group.spec, group.spec.shape()
    return GroupDetail(
        group=GroupRow(
            id=group.id,
            public_id=group.public_id,
            name=spec.name,
            queue_id=group.queue_id,
            queue=spec.queue,
            shape_id=group.shape_id,
            tenant=group.tenant,
            owner=group.owner,
            priority=spec.priority,
            scheduling=spec.scheduling,
            member_count=spec.member_count,
            submitted_at=group.submitted_at,
            time_limit_seconds=spec.time_limit_seconds,
            grace_seconds=spec.grace_seconds,
            labels=spec.labels,
        ),
        units=units_of_new(group.last_index + 1),
        shape=shape,
        spec=specs.stored_spec(spec, group.sealed),
        live=(),
        past=Past(dispatches=0, attempt=None, generation=None, running_at=None),
        succeeded_members=0,
        nodes={},
        is_preference_met=None,
        claim=None,
    )


def _is_preference_met(shape: Shape, nodes: Collection[UsedNode]) -> bool | None:
    """Whether the nodes of a group lie in one domain of its preferred level, by their labels as they are now.
    A unit is never on several pools."""
    if shape.preferred is None or not nodes:
        return None
    domains = {path_to(shape.preferred, labels=node.labels, levels=node.levels) for node in nodes}
    return len(domains) == 1 and None not in domains


def list_groups(
    engine: Engine, wanted: GroupFilter, *, principal: Principal, after: ListKey | None, limit: int
) -> GroupPage:
    """One page. A user sees own groups, and in the list of a queue the others that wait, as
    position and size; as soon as owner, name, label or status narrow the list, own groups only."""
    with reading(engine) as conn:
        rows = group_lists.list_groups(conn, _as_seen_by(principal, wanted), after=after, limit=limit + 1)
        page = rows[:limit]
        units = load_units_of(conn, [row.id for row in page])
        shapes = load_shapes(conn, {row.shape_id for row in page})
        sizes = live_reads.load_sizes(conn, [row.id for row in page if shapes[row.shape_id].is_elastic])
    last = page[-1] if len(rows) > limit else None
    return GroupPage(
        groups=tuple(
            GroupBrief(
                group=row,
                units=units[row.id],
                shape=shapes[row.shape_id],
                is_own=principal.may_see(tenant=row.tenant, owner=row.owner),
                held=sizes.get(row.id),
            )
            for row in page
        ),
        next_key=ListKey(last.priority, last.submitted_at, last.id) if last else None,
    )


def _as_seen_by(principal: Principal, wanted: GroupFilter) -> GroupFilter:
    if principal.is_operator:
        return wanted
    narrows = bool(wanted.statuses or wanted.owner or wanted.name or wanted.labels)
    return replace(
        wanted,
        viewer=(principal.tenant, principal.user),
        shows_others=wanted.queue is not None and not narrows,
    )
