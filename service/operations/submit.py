"""Submit: groups come to be, all of them or none, and wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, Engine
from uuid_utils.compat import uuid7

from service.domain.errors import Conflict
from service.domain.events import Event, Kind
from service.domain.group import GroupSpec
from service.domain.principal import Principal
from service.operations.configuration import KnownConfiguration
from service.operations.secret_box import SecretBox
from service.operations.submit_checks import check_places, open_queues, refuse_broken
from service.points import reach
from service.store.events import add_events
from service.store.groups import NewGroup, insert_groups, reserve_group_ids
from service.store.idempotency import SubmitKey, find_key, take_key
from service.store.shapes import ensure_shapes, shape_digest
from service.store.specs import hidden_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Public ids in the order of the request. `groups` is empty if an earlier request with this
    submit key made them: then this one changed nothing."""

    public_ids: tuple[UUID, ...]
    groups: tuple[NewGroup, ...] = ()

    @property
    def is_repeated(self) -> bool:
        return not self.groups


def submit_groups(
    engine: Engine,
    specs: Sequence[GroupSpec],
    *,
    principal: Principal,
    now: datetime,
    box: SecretBox,
    configuration: KnownConfiguration,
    key: SubmitKey | None = None,
    is_batch: bool = False,
) -> Submitted:
    """Insert `specs` as Pending groups of `principal`, in their order, in one transaction.

    Raises InvalidRequest or InfeasibleRequest that names every field that is wrong (with the index
    of the group if `is_batch`), and Conflict if `key` stands for another body.
    """
    refuse_broken(specs, is_batch=is_batch)
    public_ids = [uuid7() for _ in specs]
    with engine.begin() as conn:
        if key is not None and (first := _made_before(conn, key, public_ids=public_ids, now=now)) is not None:
            return first
        queue_ids = open_queues(conn, specs, principal=principal, is_batch=is_batch)
        check_places(specs, configuration.get(conn), is_batch=is_batch)
        shape_ids = _shape_ids(conn, specs)
        group_ids = reserve_group_ids(conn, len(specs))
        groups = [
            NewGroup(
                id=group_ids[index],
                public_id=public_ids[index],
                spec=spec,
                queue_id=queue_ids[index],
                shape_id=shape_ids[index],
                tenant=principal.tenant,
                owner=principal.user,
                submitted_at=now,
                sealed=box.seal(hidden_of(spec)),
            )
            for index, spec in enumerate(specs)
        ]
        insert_groups(conn, groups)
        add_events(conn, (_submitted(group) for group in groups))
        reach("api.groups-written")
    reach("api.groups-submitted")
    return Submitted(public_ids=tuple(public_ids), groups=tuple(groups))


def _made_before(
    conn: Connection, key: SubmitKey, *, public_ids: list[UUID], now: datetime
) -> Submitted | None:
    """What an earlier request with this key made; None if the key is this request's now, also because
    the groups of an old one were dropped between two looks (K1)."""
    while not take_key(conn, key, group_ids=public_ids, now=now):
        found = find_key(conn, key)
        if found is None:
            continue
        if found[0] != key.body_digest:
            raise Conflict("This Idempotency-Key was used for another request; choose a new one.")
        return Submitted(public_ids=tuple(found[1]))
    return None


def _shape_ids(conn: Connection, specs: Sequence[GroupSpec]) -> list[int]:
    shapes = [spec.shape() for spec in specs]
    digests = [shape_digest(shape) for shape in shapes]
    ids = ensure_shapes(conn, dict(zip(digests, shapes, strict=True)))
    return [ids[digest] for digest in digests]


def _submitted(group: NewGroup) -> Event:
    return Event(
        at=group.submitted_at,
        kind=Kind.SUBMITTED,
        actor=group.owner,
        group_id=group.id,
        unit_id=group.unit_id,
        attempt=1,
    )
