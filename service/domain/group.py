"""What is submitted as one: the group as its owner wrote it, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from service.domain.dependency import Dependency
from service.domain.resources import Resources
from service.domain.shape import RoleShape, Scheduling, Shape, Sizing, Slice


class OnMemberLoss(StrEnum):
    """`restart_group` starts all members again in place; `fail` ends the group."""

    RESTART_GROUP = "restart_group"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Members of one shape inside a group, with what each of them runs. `min_count` None means all
    of them, which is the only thing that a rigid group can say. `fallback_seconds`: so long the role would
    rather wait for each of its models, but the last, before the next is considered."""

    name: str
    count: int
    min_count: int | None = None
    requests: Resources
    models: tuple[str, ...] = ()
    min_gpu_memory_gib: int = 0
    node_labels: Mapping[str, str] = field(default_factory=dict)
    slice: Slice | None = None
    fallback_seconds: int = 0
    command: tuple[str, ...] = ()
    workdir: str | None = None
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def shape(self) -> RoleShape:
        return RoleShape(
            name=self.name,
            count=self.count,
            min_count=self.count if self.min_count is None else self.min_count,
            requests=self.requests,
            models=self.models,
            min_gpu_memory_mib=self.min_gpu_memory_gib * 1024,
            node_labels=tuple(sorted(self.node_labels.items())),
            slice=self.slice,
            fallback_seconds=self.fallback_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """What the application can do when it gets fewer members than `count`, or another number of them
    later. `resumes_from_checkpoint`: a start with another size goes on from where it was."""

    resize: Sizing
    resumes_from_checkpoint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What happens when a member is lost. `backoff_seconds` is waited after an eviction that no
    other group caused; `seat_timeout_seconds` bounds a restart in place."""

    on_member_loss: OnMemberLoss = OnMemberLoss.RESTART_GROUP
    max_restarts: int = 3
    backoff_seconds: int = 30
    seat_timeout_seconds: int = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A whole group. Times in seconds; `queue` is a queue's name. `priority_class` is known only to the
    site: once the group is there, `priority` is the value that it had then. The group may start once all of
    `after` have ended as they should, and not before `not_before_at`."""

    name: str
    queue: str = "default"
    priority: int = 0
    priority_class: str | None = None
    scheduling: Scheduling = Scheduling.GANG
    roles: tuple[Role, ...]
    topology_required: str | None = None
    topology_preferred: str | None = None
    elastic: Elastic | None = None
    time_limit_seconds: int | None = None
    start_timeout_seconds: int | None = 600
    grace_seconds: int = 30
    recovery: Recovery = field(default_factory=Recovery)
    is_preemptible: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    after: tuple[Dependency, ...] = ()
    not_before_at: datetime | None = None
    allows_infeasible: bool = False

    @property
    def member_count(self) -> int:
        return sum(role.count for role in self.roles)

    def named(self, name: str) -> GroupSpec:
        """The same under another name: alike (see is_like)."""
        return replace(self, name=name)

    def is_like(self, other: GroupSpec) -> bool:
        """Whether all but the name is the very same, so that what was found out of one holds for the other.
        False also for what is only equal: to compare that would take as long as to find out again."""
        return (
            self.roles is other.roles
            and self.labels is other.labels
            and self.recovery is other.recovery
            and self.elastic is other.elastic
            and self.queue == other.queue
            and self.priority == other.priority
            and self.priority_class == other.priority_class
            and self.scheduling is other.scheduling
            and self.topology_required == other.topology_required
            and self.topology_preferred == other.topology_preferred
            and self.time_limit_seconds == other.time_limit_seconds
            and self.start_timeout_seconds == other.start_timeout_seconds
            and self.grace_seconds == other.grace_seconds
            and self.is_preemptible == other.is_preemptible
            and self.after == other.after
            and self.not_before_at == other.not_before_at
            and self.allows_infeasible == other.allows_infeasible
        )

    def shape(self) -> Shape:
        return Shape(
            scheduling=self.scheduling,
            roles=tuple(role.shape() for role in self.roles),
            required=self.topology_required,
            preferred=self.topology_preferred,
            sizing=None if self.elastic is None else self.elastic.resize,
        )
