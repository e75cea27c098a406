"""Why a group would wait that is not there: the same reasons that it would have if it were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from service.admission.claims.held_for import told_to
from service.admission.waiting.eligibility import is_open
from service.admission.waiting.fallback import awaited_by, shape_at
from service.admission.world import Configuration, PendingUnit, Queue, RunningUnit
from service.domain.dependency import When
from service.domain.group import GroupSpec
from service.domain.reasons import Code, Reason, rank
from service.domain.shape import Shape
from service.domain.wording import message
from service.operations.awaited_models import with_awaited
from service.operations.foresee import Foreseen
from service.operations.own_limit_reasons import Whose, reasons_within
from service.operations.tell_reasons import (
    reason_of,
    reason_of_not_before,
    reason_of_stopped,
    reasons_of_after,
    reasons_of_preemption,
)
from service.store.own_limit_reads import OwnLimitFacts


class Awaited(NamedTuple):
    """A group that has to end first (its public id), and how."""

    when: When
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A group as it would wait: `shape` on the terms of its queue; `after`: who has to end first."""

    spec: GroupSpec
    shape: Shape
    row: PendingUnit
    after: tuple[Awaited, ...]


def reasons_to_wait(
    checked: Checked, foreseen: Foreseen, *, configuration: Configuration, now: datetime
) -> list[Reason]:
    """The most decisive first; there is always one. A limit of its owner and what the plan says may both be
    short, and have one code."""
    own = [
        *_reasons_of_its_own(checked, configuration.queues[checked.row.queue_id], now=now),
        *reasons_of_preemption(foreseen.victims, is_dry_run=True),
    ]
    codes = {reason.code for reason in own}
    of_limits = _reasons_of_limits(checked, foreseen, configuration=configuration, now=now)
    planned = [reason for reason in _planned_reasons(checked, foreseen, now=now) if reason.code not in codes]
    reasons = sorted((*own, *of_limits, *planned), key=lambda reason: rank(reason.code))
    if not reasons:
        reasons = [Reason(code=Code.PENDING_EVALUATION, message=message(Code.PENDING_EVALUATION))]
    awaited = awaited_by(checked.shape, now, now)
    return with_awaited(reasons, min(awaited, key=lambda each: each.until, default=None))


def _reasons_of_its_own(checked: Checked, queue: Queue, *, now: datetime) -> Iterator[Reason]:
    if not is_open(queue):
        yield reason_of_stopped(queue.name)
    awaited = {when: tuple(each.group for each in checked.after if each.when is when) for when in When}
    yield from reasons_of_after({when: groups for when, groups in awaited.items() if groups})
    at = checked.spec.not_before_at
    if at is not None and at > now:
        yield reason_of_not_before(at)


def _planned_reasons(checked: Checked, foreseen: Foreseen, *, now: datetime) -> Iterator[Reason]:
    row, ends_at = checked.row, None
    if row.time_limit_seconds is not None:
        ends_at = now + timedelta(seconds=row.time_limit_seconds + row.grace_seconds)
    for blocker in foreseen.blockers:
        told = told_to(blocker, public_id=row.public_id, ends_at=ends_at)
        if told is not None:
            yield reason_of(told, foreseen.numbers)


def _reasons_of_limits(
    checked: Checked, foreseen: Foreseen, *, configuration: Configuration, now: datetime
) -> list[Reason]:
    row, queue = checked.row, configuration.queues[checked.row.queue_id]
    is_bound_to_own = queue.cohort_id is not None and not row.is_preemptible
    if not (queue.policy.user_limit or queue.policy.group_limit or is_bound_to_own):
        return []
    models = _models(configuration, queue.policy.flavors)
    nominal, running = queue.quota.nominal or {}, foreseen.world.running.values()
    of_queue = [unit for unit in running if unit.queue_id == row.queue_id]
    facts = OwnLimitFacts(
        shape=checked.shape,
        models=models,
        user_limit=queue.policy.user_limit,
        group_limit=queue.policy.group_limit,
        user_holds=_held(unit for unit in of_queue if unit.owner == row.owner),
        group_holds={},
        own={model: nominal.get(model, 0) for model in models} if is_bound_to_own else None,
        queue_holds=_held(of_queue),
    )
    _, _, owner = row.owner.partition("/")
    return reasons_within(
        facts, Whose(queue.name, owner, row.public_id), considered=shape_at(checked.shape, now, now)
    )


def _models(configuration: Configuration, flavors: tuple[str, ...] | None) -> tuple[str, ...]:
    found = {device.model for node in configuration.nodes.values() for device in node.devices}
    return tuple(sorted(model for model in found if flavors is None or model in flavors))


def _held(units: Iterable[RunningUnit]) -> Counter[str]:
    held: Counter[str] = Counter()
    for unit in units:
        held.update(unit.usage)
    return held
