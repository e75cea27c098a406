"""The group as it is answered. Nothing secret is in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from service.api.schemas.role_answer import RoleAnswer, role_answers
from service.domain.group import Elastic, Recovery
from service.domain.resources import Resources
from service.domain.shape import Shape
from service.operations.read_groups import GroupBrief, GroupDetail
from service.store.claim_reads import GroupClaim
from service.store.live_reads import LiveUnit
from service.wire.values import AnswerStruct


class SizeAnswer(AnswerStruct, frozen=True, kw_only=True):
    """Of an elastic group: the fewest members that it starts with, and what it holds now, without members
    that it is giving up; 0 while it waits."""

    min_members: int
    present_members: int
    present_gpus: int


class GroupBriefAnswer(AnswerStruct, frozen=True, kw_only=True):
    """A group in a list. Of another owner's group only what it asks for and its position are
    told: everything else is null."""

    id: UUID | None
    name: str | None
    queue: str
    tenant: str | None
    owner: str | None
    priority: int | None
    scheduling: str | None
    status: str | None
    #: How many units are in each status: a gang is one, each member of an independent group is one.
    units: dict[str, int] | None
    is_waiting: bool
    position: int | None
    wanted_members: int
    wanted_gpus: int
    #: Null for a group that has one size.
    size: SizeAnswer | None
    attempt: int | None
    submitted_at: datetime | None
    admitted_at: datetime | None
    ended_at: datetime | None
    cause: str | None
    message: str | None
    labels: dict[str, str] | None


class PlaceAnswer(AnswerStruct, frozen=True, kw_only=True):
    """What a group holds on one node."""

    node: str
    gpus: int
    members: int


class AfterAnswer(AnswerStruct, frozen=True, kw_only=True):
    """A group that has to end, and how."""

    group: UUID
    when: str


class ClaimAnswer(AnswerStruct, frozen=True, kw_only=True):
    """`cause`: `Head`, it is next and its start has a date; `Guard`, it has lacked nothing but places for its
    guard time; `Preemption`, others make room for it. `due_at`: when its places should be free; null while
    somebody on them has no time limit. `redated`: how many of its dates have passed. `gpus`: all that it
    names, free or not."""

    cause: str
    made_at: datetime
    due_at: datetime | None
    redated: int
    gpus: int


class RecoveryAnswer(AnswerStruct, frozen=True, kw_only=True):
    on_member_loss: str
    max_restarts: int
    backoff_seconds: int
    seat_timeout_seconds: int


class ElasticAnswer(AnswerStruct, frozen=True, kw_only=True):
    resize: str
    resumes_from_checkpoint: bool


class GroupAnswer(AnswerStruct, frozen=True, kw_only=True):
    """One group. `attempt` and `generation` belong to a gang; for an independent group each member
    has its own, see `members`. `position` is null while nothing waits, and while Redis is away."""

    id: UUID
    name: str
    queue: str
    tenant: str
    owner: str
    priority: int
    scheduling: str
    status: str
    units: dict[str, int]
    is_waiting: bool
    position: int | None
    wanted_members: int
    wanted_gpus: int
    #: Members that have a place now: between `min_count` and `count` of an elastic group. Those that it is
    #: giving up hold theirs until they have stopped, and are not counted.
    present_members: int
    succeeded_members: int
    attempt: int | None
    generation: int | None
    places: list[PlaceAnswer]
    #: Places that are kept for it while it waits.
    claim: ClaimAnswer | None
    pool: str | None
    is_unreachable: bool
    is_held: bool
    submitted_at: datetime
    admitted_at: datetime | None
    running_at: datetime | None
    ended_at: datetime | None
    backoff_until: datetime | None
    time_limit_at: datetime | None
    cause: str | None
    message: str | None
    #: The member of an independent group that `cause` and `message` belong to.
    failed_member: int | None
    dispatches: int
    refused_dispatches: int
    restarts_used: int
    roles: list[RoleAnswer]
    topology_required: str | None
    elastic: ElasticAnswer | None
    topology_preferred: str | None
    #: Whether all places lie in one domain of the preferred level; null without one, or without places.
    is_preference_met: bool | None
    time_limit_seconds: int | None
    start_timeout_seconds: int | None
    grace_seconds: int
    recovery: RecoveryAnswer
    preemptible: bool
    labels: dict[str, str]
    after: list[AfterAnswer]
    not_before_at: datetime | None
    allow_infeasible: bool


class GroupPageAnswer(AnswerStruct, frozen=True, kw_only=True):
    """`cursor` gets the next page; null on the last."""

    groups: list[GroupBriefAnswer]
    cursor: str | None


def brief_answer(brief: GroupBrief, position: int | None) -> GroupBriefAnswer:
    group, units = brief.group, brief.units
    own = brief.is_own
    return GroupBriefAnswer(
        id=group.public_id if own else None,
        name=group.name if own else None,
        queue=group.queue,
        tenant=group.tenant if own else None,
        owner=group.owner if own else None,
        priority=group.priority if own else None,
        scheduling=group.scheduling.value if own else None,
        status=units.status.value if own else None,
        units=_counts(brief) if own else None,
        is_waiting=units.is_waiting,
        position=position,
        wanted_members=group.member_count,
        wanted_gpus=wanted(brief.shape).gpus,
        size=_size(brief) if own and brief.shape.is_elastic else None,
        attempt=units.attempt if own and group.is_gang else None,
        submitted_at=group.submitted_at if own else None,
        admitted_at=units.admitted_at if own else None,
        ended_at=units.ended_at if own else None,
        cause=units.cause if own else None,
        message=units.message if own else None,
        labels=dict(group.labels) if own else None,
    )


def _size(brief: GroupBrief) -> SizeAnswer:
    return SizeAnswer(
        min_members=brief.shape.at_least().member_count,
        present_members=brief.held.members if brief.held else 0,
        present_gpus=brief.held.gpus if brief.held else 0,
    )


def _claim(claim: GroupClaim | None) -> ClaimAnswer | None:
    if claim is None:
        return None
    return ClaimAnswer(
        cause=claim.cause.value,
        made_at=claim.made_at,
        due_at=claim.due_at,
        redated=claim.redated,
        gpus=claim.gpus,
    )


def group_answer(detail: GroupDetail, position: int | None) -> GroupAnswer:
    group, units, spec = detail.group, detail.units, detail.spec.spec
    return GroupAnswer(
        id=group.public_id,
        name=group.name,
        queue=group.queue,
        tenant=group.tenant,
        owner=group.owner,
        priority=group.priority,
        scheduling=group.scheduling.value,
        status=units.status.value,
        units=_counts(detail),
        is_waiting=units.is_waiting,
        position=position,
        wanted_members=group.member_count,
        wanted_gpus=wanted(detail.shape).gpus,
        present_members=sum(len(unit.present) for unit in detail.live),
        succeeded_members=detail.succeeded_members,
        attempt=units.attempt if group.is_gang else None,
        generation=_generation(detail) if group.is_gang else None,
        places=_places(detail.live, detail.nodes),
        claim=_claim(detail.claim),
        pool=detail.live[0].pool if detail.live else None,
        is_unreachable=any(unit.is_unreachable for unit in detail.live),
        is_held=units.is_held,
        submitted_at=group.submitted_at,
        admitted_at=units.admitted_at,
        running_at=_running_at(detail),
        ended_at=units.ended_at,
        backoff_until=units.backoff_until,
        time_limit_at=min((unit.time_limit_at for unit in detail.live if unit.time_limit_at), default=None),
        cause=units.cause,
        message=units.message,
        failed_member=None if group.is_gang else units.member,
        dispatches=detail.past.dispatches + sum(unit.dispatches for unit in detail.live),
        refused_dispatches=units.refused_dispatches,
        restarts_used=units.restarts_used,
        roles=role_answers(detail.spec),
        topology_required=spec.topology_required,
        elastic=_elastic_answer(spec.elastic),
        time_limit_seconds=group.time_limit_seconds,
        topology_preferred=spec.topology_preferred,
        is_preference_met=detail.is_preference_met,
        start_timeout_seconds=spec.start_timeout_seconds,
        grace_seconds=spec.grace_seconds,
        recovery=_recovery_answer(spec.recovery),
        preemptible=spec.is_preemptible,
        labels=dict(group.labels),
        after=[
            AfterAnswer(group=each.group, when=each.when.value)
            for each in spec.after
            if each.group is not None
        ],
        not_before_at=spec.not_before_at,
        allow_infeasible=spec.allows_infeasible,
    )


def _elastic_answer(elastic: Elastic | None) -> ElasticAnswer | None:
    if elastic is None:
        return None
    return ElasticAnswer(resize=elastic.resize.value, resumes_from_checkpoint=elastic.resumes_from_checkpoint)


def _recovery_answer(recovery: Recovery) -> RecoveryAnswer:
    return RecoveryAnswer(
        on_member_loss=recovery.on_member_loss.value,
        max_restarts=recovery.max_restarts,
        backoff_seconds=recovery.backoff_seconds,
        seat_timeout_seconds=recovery.seat_timeout_seconds,
    )


def wanted(shape: Shape) -> Resources:
    """What all members together ask for."""
    total = Resources()
    for role in shape.roles:
        total = total.plus(role.requests.times(role.count))
    return total


def _counts(brief: GroupBrief) -> dict[str, int]:
    return {status.value: count for status, count in sorted(brief.units.counts.items())}


def _generation(detail: GroupDetail) -> int | None:
    """Of the live attempt, else the last of the present attempt; None before its first launch."""
    if detail.live:
        return detail.live[0].generation
    return detail.past.generation if detail.past.attempt == detail.units.attempt else None


def _running_at(detail: GroupDetail) -> datetime | None:
    if detail.live:
        return min((unit.running_at for unit in detail.live if unit.running_at), default=None)
    return detail.past.running_at if detail.units.ended_at else None


def _places(live: tuple[LiveUnit, ...], nodes: Mapping[int, str]) -> list[PlaceAnswer]:
    gpus: dict[int, int] = defaultdict(int)
    members: dict[int, int] = defaultdict(int)
    for unit in live:
        for place in unit.places:
            gpus[place.node_id] += len(place.devices)
            members[place.node_id] += 1
    return sorted(
        (PlaceAnswer(node=nodes[node], gpus=gpus[node], members=members[node]) for node in gpus),
        key=lambda place: place.node,
    )
