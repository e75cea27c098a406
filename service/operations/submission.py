"""What requests ask for, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from uuid_utils.compat import uuid7

from service.domain.dependency import Dependency
from service.domain.errors import Conflict, MusterError
from service.domain.group import GroupSpec
from service.domain.principal import Principal
from service.domain.shape import Shape
from service.operations.configuration import Cluster
from service.operations.submit_checks import (
    find_broken,
    find_closed,
    find_disallowed,
    find_late,
    find_misplaced,
    find_unknown,
    settle_all,
)
from service.store.dependencies import NamedGroup
from service.store.ground import Entry, Ground
from service.store.groups import NewGroup
from service.store.idempotency import KeyedGroups, SubmitKey
from service.store.shapes import shape_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What one request asks for: `specs` as Pending groups of `principal`, in their order, all of them or
    none. `is_batch`: what refuses it names the index of a group."""

    specs: Sequence[GroupSpec]
    principal: Principal
    now: datetime
    key: SubmitKey | None = None
    is_batch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Public ids in the order of the request. `groups` is empty if an earlier request with this
    submit key made them: then this one changed nothing."""

    public_ids: tuple[UUID, ...]
    groups: tuple[NewGroup, ...] = ()

    @property
    def is_repeated(self) -> bool:
        return not self.groups


#: The groups of a request, or why there are none: an InvalidRequest or InfeasibleRequest that names every
#: field that is wrong, a Conflict if its key stands for another body.
Outcome: TypeAlias = Submitted | MusterError


@dataclass(slots=True)
class Draft:
    """A request on its way. `refusal` may come at any step; without one it becomes groups, or is the
    repetition of an earlier one."""

    submission: Submission
    public_ids: tuple[UUID, ...] = field(init=False)
    shapes: tuple[Shape, ...] = field(init=False)
    digests: tuple[bytes, ...] = field(init=False)
    keyed: KeyedGroups | None = field(init=False)
    refusal: MusterError | None = field(init=False)
    specs: Sequence[GroupSpec] = field(init=False)
    repeated: KeyedGroups | None = None
    groups: tuple[NewGroup, ...] = ()
    #: By queue, how long groups of this user are expected to run there.
    expected: Mapping[str, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ask = self.submission
        self.refusal = find_broken(ask.specs, is_batch=ask.is_batch) or find_late(
            ask.specs, is_batch=ask.is_batch
        )
        self.specs = ask.specs
        self.public_ids = tuple(uuid7() for _ in ask.specs)
        shapes = shapes_of(ask.specs)
        self.shapes = tuple(shape for shape, _ in shapes)
        self.digests = tuple(digest for _, digest in shapes)
        self.keyed = None
        if ask.key is not None:
            self.keyed = KeyedGroups(key=ask.key, group_ids=self.public_ids, created_at=ask.now)

    @property
    def comes_to_be(self) -> bool:
        return self.refusal is None and self.repeated is None

    @property
    def outcome(self) -> Outcome:
        if self.refusal is not None:
            return self.refusal
        if self.repeated is not None:
            return Submitted(public_ids=self.repeated.group_ids)
        return Submitted(public_ids=self.public_ids, groups=self.groups)

    def entry_of(self, queue: str) -> Entry:
        principal = self.submission.principal
        return queue, principal.tenant, principal.is_operator

    def entries(self) -> set[Entry]:
        return {self.entry_of(queue) for queue in {spec.queue for spec in self.submission.specs}}

    def repeat(self, first: KeyedGroups) -> None:
        """Be the repetition of `first`, or in conflict with it."""
        assert self.keyed is not None
        if first.key.body_digest == self.keyed.key.body_digest:
            self.repeated = first
        else:
            self.refusal = Conflict("This Idempotency-Key was used for another request; choose a new one.")

    def named_groups(self) -> set[UUID]:
        """The groups that these wait for, besides those of the request itself."""
        return {each.group for spec in self.submission.specs for each in spec.after if each.group is not None}

    def resolved(self, spec: GroupSpec) -> GroupSpec:
        """The same, with each group that it waits for by its id."""
        if all(each.batch_index is None for each in spec.after):
            return spec
        return replace(
            spec,
            after=tuple(
                each
                if each.batch_index is None
                else Dependency(group=self.public_ids[each.batch_index], when=each.when)
                for each in spec.after
            ),
        )

    def check(self, ground: Ground, cluster: Cluster, *, named: Mapping[UUID, NamedGroup]) -> None:
        """Against queues, nodes and groups as they are now."""
        specs, is_batch = self.specs, self.submission.is_batch
        open_queues = {
            queue for queue in {spec.queue for spec in specs} if self.entry_of(queue) in ground.queues
        }
        who = self.submission.principal
        visible = {key for key, each in named.items() if who.may_see(tenant=each.tenant, owner=each.owner)}
        self.refusal = (
            find_closed(specs, open_queues=open_queues, is_batch=is_batch)
            or self._settle(ground, cluster)
            or find_unknown(specs, visible=visible, is_batch=is_batch)
            or find_misplaced(specs, self.shapes, cluster=cluster, is_batch=is_batch)
        )

    def _settle(self, ground: Ground, cluster: Cluster) -> MusterError | None:
        """Each group gets what its queue adds to it, and has to keep to what that asks for."""
        policies = {
            queue: cluster.policy_of(ground.queues[self.entry_of(queue)])
            for queue in {spec.queue for spec in self.specs}
        }
        classes = cluster.priority_classes
        self.specs = settle_all(self.specs, policies, priority_classes=classes)
        return find_disallowed(
            self.specs,
            policies,
            role=self.submission.principal.role,
            priority_classes=classes,
            is_batch=self.submission.is_batch,
        )


def shapes_of(specs: Sequence[GroupSpec]) -> list[tuple[Shape, bytes]]:
    """The shape of each, with its digest; of those that are alike it is made once."""
    found: list[tuple[Shape, bytes]] = []
    for index, spec in enumerate(specs):
        if index and spec.is_like(specs[index - 1]):
            found.append(found[-1])
        else:
            shape = spec.shape()
            found.append((shape, shape_digest(shape)))
    return found
