"""Queues as requests say them: amounts by flavor in GPUs, `cpus` in CPUs, `memory_gib` in GiB."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from service.domain.principal import KeyRole
from service.domain.queue import Filling, Order, OrderBy, PreemptWithin, Reclaim, Stop
from service.domain.tree import QueueSettings
from service.wire.amounts import Amounts, Flavor, amounts_answer
from service.wire.group_values import Priority
from service.wire.values import Duration, Name, RequestStruct, duration_text, whole_if_it_is

Weight: TypeAlias = Annotated[float, Meta(ge=0, le=1_000_000_000)]
#: Names of GPU models, or of pools, that a queue may use.
Flavors: TypeAlias = Annotated[list[Flavor], Meta(max_length=256)]
Pools: TypeAlias = Annotated[list[Name], Meta(max_length=256)]
#: By role of who submits.
HighestPriority: TypeAlias = dict[KeyRole, Priority]
Evictions: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]


class QueueRequest(RequestStruct, frozen=True, kw_only=True):
    """A queue to make. `nominal_quota` null: no quota at all; `{}`: nothing of any flavor. A flavor
    that is not named has 0, CPUs and memory that are not named are unlimited. `limit`: the most that
    the queue may ever hold. `order_by`: who is before whom of equal priority: the older, with `shortest`
    whoever has the shorter time limit, with `balanced` the older once each is set back by a fifth of its
    time limit.

    In a `cohort`, which needs a nominal quota, `borrowing_limit` says how much more than that it may take
    (not named: no bound) and `lending_limit` how much of it others may take (not named: all). `weight`: its
    part of what is shared, 0 for last. `user_limit` and `group_limit`: the most that one user, or one group,
    may hold. `highest_priority`: of a group, by role of who submits it. `min_runtime`: not preempted before;
    `evictions_per_day`: nor more often."""

    name: Name
    tenant: Name | None = None
    cohort: Name | None = None
    weight: Weight = 1.0
    order: Order = Order.BEST_EFFORT
    order_by: OrderBy = OrderBy.AGE
    stop: Stop = Stop.NONE
    nominal_quota: Amounts | None = None
    borrowing_limit: Amounts | None = None
    lending_limit: Amounts | None = None
    limit: Amounts | None = None
    user_limit: Amounts | None = None
    group_limit: Amounts | None = None
    flavors: Flavors | None = None
    pools: Pools | None = None
    filling: Filling = Filling.PACK
    preempt_within: PreemptWithin = PreemptWithin.NEVER
    reclaim: Reclaim = Reclaim.NEVER
    min_runtime: Duration = 0.0
    evictions_per_day: Evictions | None = None
    highest_priority: HighestPriority | None = None
    default_time_limit: Duration | None = None
    max_time_limit: Duration | None = None


class QueuePatch(RequestStruct, frozen=True, kw_only=True):
    """What to change. A map replaces the whole map."""

    tenant: Name | UnsetType | None = UNSET
    cohort: Name | UnsetType | None = UNSET
    weight: Weight | UnsetType = UNSET
    order: Order | UnsetType = UNSET
    order_by: OrderBy | UnsetType = UNSET
    stop: Stop | UnsetType = UNSET
    nominal_quota: Amounts | UnsetType | None = UNSET
    borrowing_limit: Amounts | UnsetType | None = UNSET
    lending_limit: Amounts | UnsetType | None = UNSET
    limit: Amounts | UnsetType | None = UNSET
    user_limit: Amounts | UnsetType | None = UNSET
    group_limit: Amounts | UnsetType | None = UNSET
    flavors: Flavors | UnsetType | None = UNSET
    pools: Pools | UnsetType | None = UNSET
    filling: Filling | UnsetType = UNSET
    preempt_within: PreemptWithin | UnsetType = UNSET
    reclaim: Reclaim | UnsetType = UNSET
    min_runtime: Duration | UnsetType = UNSET
    evictions_per_day: Evictions | UnsetType | None = UNSET
    highest_priority: HighestPriority | UnsetType | None = UNSET
    default_time_limit: Duration | UnsetType | None = UNSET
    max_time_limit: Duration | UnsetType | None = UNSET


def queue_fields(settings: QueueSettings) -> dict[str, Any]:
    """Everything that a request may say of a queue, under the names of the wire."""
    quota, policy = settings.quota, settings.policy
    return {
        "name": settings.name,
        "tenant": settings.tenant,
        "cohort": settings.cohort,
        "weight": whole_if_it_is(policy.weight),
        "order": settings.order,
        "order_by": policy.order_by,
        "stop": settings.stop,
        "nominal_quota": None if quota.nominal is None else amounts_answer(quota.nominal),
        "borrowing_limit": amounts_answer(quota.borrowing),
        "lending_limit": amounts_answer(quota.lending),
        "limit": amounts_answer(quota.limit or {}),
        "user_limit": amounts_answer(policy.user_limit),
        "group_limit": amounts_answer(policy.group_limit),
        "flavors": None if policy.flavors is None else list(policy.flavors),
        "pools": None if policy.pools is None else list(policy.pools),
        "filling": policy.filling,
        "preempt_within": policy.preempt_within,
        "reclaim": policy.reclaim,
        "min_runtime": duration_text(policy.min_runtime_seconds),
        "evictions_per_day": policy.evictions_per_day,
        "highest_priority": dict(sorted(policy.highest_priority.items())),
        "default_time_limit": _text(policy.default_time_limit_seconds),
        "max_time_limit": _text(policy.max_time_limit_seconds),
    }


def _text(seconds: int | None) -> str | None:
    return None if seconds is None else duration_text(seconds)
