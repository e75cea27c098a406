"""What would come of a group if it were submitted now. Writes nothing, and locks nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, Engine

from service.admission.plan import Admission
from service.admission.policy import Policy, policy_as_said
from service.admission.waiting.eligibility import is_eligible, is_open
from service.admission.world import Node, PendingUnit
from service.domain.dependency import ANSWER
from service.domain.errors import FieldError, InvalidRequest
from service.domain.group import GroupSpec
from service.domain.principal import Principal
from service.domain.unit import unit_id
from service.operations.check_reasons import Awaited, Checked, reasons_to_wait
from service.operations.configuration import Cluster, KnownConfiguration
from service.operations.foresee import NEW_GROUP, NEW_SHAPE, Foreseen, foresee
from service.operations.read_groups import reading
from service.operations.submission import Draft, Submission
from service.operations.tell_reasons import Told, tell_to
from service.store.contenders import QueueNow, count_ahead, look_at_queue
from service.store.dependencies import NamedGroup, find_named
from service.store.ground import Ground
from service.store.group_reads import load_units_of
from service.store.unit_rows import owner_of


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """What members of it would hold on one node."""

    node: str
    gpus: int
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Of a group that would be taken. `is_whole`: all of it would start at once. `places`: where members of
    it would; why the others would wait, from which position in the queue (None: they may not start yet), and
    the date that a claim of theirs would have."""

    is_whole: bool
    places: tuple[NodeShare, ...]
    told: Told = field(default_factory=lambda: Told(reasons=(), hidden=()))
    position: int | None = None
    planned_start_at: datetime | None = None


def check_group(
    engine: Engine,
    spec: GroupSpec,
    *,
    principal: Principal,
    now: datetime,
    configuration: KnownConfiguration,
    policy: Policy,
) -> Check:
    """On the present state, in one snapshot. `policy`: where admins say nothing. Raises what a submit would
    be refused for, and InvalidRequest for a group that would be Cancelled at once. Costs about what a cycle
    costs in which few groups wait."""
    draft = Draft(Submission(specs=[spec], principal=principal, now=now))
    if draft.refusal is not None:
        raise draft.refusal
    with reading(engine) as conn:
        # 1. What a submit would be refused for.
        found = look_at_queue(conn, draft.entry_of(spec.queue))
        cluster = configuration.at(found.config_version, conn)
        queue_id, awaited = _judge(conn, draft, found=found, cluster=cluster)
        # 2. What the next cycle would do with it.
        row = _row_of(draft, queue_id, open_dependencies=len(awaited))
        foreseen = foresee(
            conn,
            row,
            shape=draft.shapes[0],
            configuration=cluster.configuration,
            policy=policy_as_said(policy, cluster.configuration.scheduling),
            now=now,
        )
        places = tuple(_shares(foreseen.admissions, cluster.configuration.nodes))
        if _is_whole(foreseen, row):
            return Check(is_whole=True, places=places)
        # 3. Why it would wait, as far as who asks may see it.
        shape = cluster.on_terms(draft.shapes[0], spec.queue)
        checked = Checked(spec=draft.specs[0], shape=shape, row=row, after=awaited)
        reasons = reasons_to_wait(checked, foreseen, configuration=cluster.configuration, now=now)
        due_at = foreseen.due_at
        return Check(
            is_whole=False,
            places=places,
            told=tell_to(conn, reasons, principal=principal),
            position=_find_position(conn, row, cluster=cluster, now=now),
            planned_start_at=due_at if due_at is not None and due_at > now else None,
        )


def _judge(
    conn: Connection, draft: Draft, *, found: QueueNow, cluster: Cluster
) -> tuple[int, tuple[Awaited, ...]]:
    """The queue that takes the group, and the groups that have to end first. Raises what refuses it."""
    entry = draft.entry_of(draft.specs[0].queue)
    queues = {} if found.queue_id is None else {entry: found.queue_id}
    ground = Ground(config_version=found.config_version, queues=queues, shapes={}, group_ids=[])
    named = find_named(conn, draft.named_groups()) if draft.named_groups() else {}
    draft.check(ground, cluster, named=named)
    if draft.refusal is not None:
        raise draft.refusal
    return queues[entry], tuple(_awaited(conn, draft, named=named)) if named else ()


def _awaited(conn: Connection, draft: Draft, *, named: Mapping[UUID, NamedGroup]) -> Iterator[Awaited]:
    """Raises InvalidRequest for an entry of `after` that can never hold: such a group is taken, and Cancelled
    at once."""
    units = load_units_of(conn, [each.id for each in named.values()])
    for position, each in enumerate(draft.specs[0].after):
        # A group of its own names none of its batch.
        assert each.group is not None
        there, answer = units[named[each.group].id], ANSWER.get(each.when)
        if there.ended_at is None:
            yield Awaited(each.when, str(each.group))
        elif answer not in (None, there.status):
            words = (
                f"group {each.group} has ended as {there.status}, and {each.when} waits for {answer}:"
                " this group would be Cancelled at once (DependencyNeverMet)"
            )
            raise InvalidRequest.of([FieldError(f"after[{position}]", words)])


def _row_of(draft: Draft, queue_id: int, *, open_dependencies: int) -> PendingUnit:
    """As it would wait, the last of those with its priority."""
    (spec,), asked = draft.specs, draft.submission
    last_index = 0 if draft.shapes[0].is_gang else spec.member_count - 1
    return PendingUnit(
        id=unit_id(NEW_GROUP, last_index),
        group_id=NEW_GROUP,
        public_id=str(draft.public_ids[0]),
        queue_id=queue_id,
        shape_id=NEW_SHAPE,
        priority=spec.priority,
        submitted_at=asked.now,
        first_index=0,
        last_index=last_index,
        attempt=1,
        version=1,
        time_limit_seconds=spec.time_limit_seconds,
        start_timeout_seconds=spec.start_timeout_seconds,
        owner=owner_of(asked.principal.tenant, asked.principal.user),
        is_preemptible=spec.is_preemptible,
        grace_seconds=spec.grace_seconds,
        not_before_at=spec.not_before_at,
        open_dependencies=open_dependencies,
    )


def _is_whole(foreseen: Foreseen, row: PendingUnit) -> bool:
    """Whether each of its units would start: a gang is one."""
    return len(foreseen.admissions) == row.last_index - row.first_index + 1


def _shares(admissions: Iterable[Admission], nodes: Mapping[int, Node]) -> Iterator[NodeShare]:
    gpus: dict[int, int] = defaultdict(int)
    members: dict[int, int] = defaultdict(int)
    for admission in admissions:
        for place in admission.places:
            gpus[place.node_id] += len(place.devices)
            members[place.node_id] += 1
    for node_id in sorted(members, key=lambda node_id: nodes[node_id].name):
        yield NodeShare(node=nodes[node_id].name, gpus=gpus[node_id], members=members[node_id])


def _find_position(conn: Connection, row: PendingUnit, *, cluster: Cluster, now: datetime) -> int | None:
    queue = cluster.configuration.queues[row.queue_id]
    if not (is_open(queue) and is_eligible(row, now)):
        return None
    return 1 + count_ahead(conn, row, order_by=queue.policy.order_by, now=now)
