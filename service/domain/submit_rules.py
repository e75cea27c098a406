"""What a queue asks of a group that is submitted to it, or changed, and what it adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from service.domain.errors import FieldError
from service.domain.group import GroupSpec, Role
from service.domain.principal import KeyRole
from service.domain.queue import QueuePolicy
from service.domain.resources import CPUS, MEMORY, shown_amount, wire_name
from service.domain.shape import Scheduling


def settled(spec: GroupSpec, policy: QueuePolicy, *, priority_classes: Mapping[str, int]) -> GroupSpec:
    """`spec` with the value of its priority class, if that is known, and the time limit of the queue if it
    has none of its own: the default, else the most that the queue allows."""
    priority = priority_classes.get(spec.priority_class or "", spec.priority)
    limit = spec.time_limit_seconds
    for of_queue in (policy.default_time_limit_seconds, policy.max_time_limit_seconds):
        limit = of_queue if limit is None else limit
    if (priority, limit) == (spec.priority, spec.time_limit_seconds):
        return spec
    return replace(spec, priority=priority, time_limit_seconds=limit)


def broken_submit_rules(
    spec: GroupSpec, policy: QueuePolicy, *, role: KeyRole, priority_classes: Collection[str]
) -> tuple[FieldError, ...]:
    """Rules of its queue that a settled spec breaks. `role`: of who submits it."""
    if spec.priority_class is not None and spec.priority_class not in priority_classes:
        return (unknown_class(spec.priority_class, priority_classes),)
    return (
        *broken_priority_rules(spec.priority, policy, role=role),
        *broken_time_limit_rules(spec.time_limit_seconds, policy),
        *_limit_rules(spec, policy),
    )


def unknown_class(name: str, priority_classes: Collection[str]) -> FieldError:
    known = ", ".join(sorted(priority_classes)) or "none"
    return FieldError("priority", f"there is no priority class {name}; there is: {known}")


def broken_priority_rules(priority: int, policy: QueuePolicy, *, role: KeyRole) -> Iterator[FieldError]:
    highest = policy.highest_priority.get(role.value)
    if highest is not None and priority > highest:
        yield FieldError(
            "priority", f"{priority} is above {highest}, the highest that role {role} may set in this queue"
        )


def broken_time_limit_rules(seconds: int | None, policy: QueuePolicy) -> Iterator[FieldError]:
    longest = policy.max_time_limit_seconds
    if longest is not None and (seconds is None or seconds > longest):
        asked = "no limit" if seconds is None else f"{seconds} s"
        yield FieldError("time_limit", f"{asked} is above {longest} s, the longest that this queue allows")


def _limit_rules(spec: GroupSpec, policy: QueuePolicy) -> Iterator[FieldError]:
    """A gang holds all of its needed members at once: one that needs more than its owner, or any group, may
    ever hold would wait for ever. Of an independent group each member counts alone here, and as many of
    them run at once as the limits allow."""
    field = "roles[0].count" if len(spec.roles) == 1 else "roles"
    for whose, name, limit in (
        ("a group", "group_limit", policy.group_limit),
        ("one user", "user_limit", policy.user_limit),
    ):
        for resource, amount in sorted(_least(spec, policy, limit=limit).items()) if limit else ():
            most = limit.get(resource)
            if most is not None and amount > most:
                asked, bound = shown_amount(resource, amount), shown_amount(resource, most)
                yield FieldError(
                    field,
                    f"the group needs {asked} {wire_name(resource)} at once; {whose} of this queue may hold"
                    f" {bound} ({name})",
                )


def _least(spec: GroupSpec, policy: QueuePolicy, *, limit: Mapping[str, int]) -> dict[str, int]:
    """What the group holds at the least, by resource. A role that may have several models counts alone,
    and as the one of the widest limit, so that nothing is refused that could be held."""
    least: Counter[str] = Counter()
    for role in spec.roles:
        members, models = _members_at_once(spec, role), _models(role, policy)
        least[CPUS] += members * role.requests.cpus_milli
        least[MEMORY] += members * role.requests.memory_mib
        if len(models) == 1:
            least[models[0]] += members * role.requests.gpus
    for role in spec.roles:
        models = _models(role, policy)
        if len(models) > 1 and all(model in limit for model in models):
            widest = max(models, key=lambda model: limit[model])
            least[widest] = max(least[widest], _members_at_once(spec, role) * role.requests.gpus)
    return least


def _models(role: Role, policy: QueuePolicy) -> tuple[str, ...]:
    """Empty for any."""
    if not role.models:
        return policy.flavors or ()
    return tuple(model for model in role.models if policy.flavors is None or model in policy.flavors)


def _members_at_once(spec: GroupSpec, role: Role) -> int:
    if spec.scheduling is Scheduling.INDEPENDENT:
        return 1
    return role.count if role.min_count is None else role.min_count
