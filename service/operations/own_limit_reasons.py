"""Why a group waits that its owner, or the group itself, may not hold more of, or that may not borrow: as of
now, like all that is the group's own. Limits may have been lowered since it was submitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from service.domain.reasons import Code, Reason
from service.domain.resources import CPUS, MEMORY
from service.domain.shape import Shape
from service.domain.wording import message
from service.store.group_reads import GroupRow
from service.store.own_limit_reads import OwnLimitFacts, find_own_limit_facts


class Whose(NamedTuple):
    """The names of a queue, of the owner of a group in it, and of the group."""

    queue: str
    owner: str
    group: str


def reasons_of_own_limits(conn: Connection, group: GroupRow, *, considered: Shape) -> list[Reason]:
    """Of a group that waits. `considered`: its shape with the models that are considered now."""
    facts = find_own_limit_facts(conn, group)
    if facts is None:
        return []
    whose = Whose(group.queue, group.owner, str(group.public_id))
    return reasons_within(facts, whose, considered=considered)


def reasons_within(facts: OwnLimitFacts, whose: Whose, *, considered: Shape) -> list[Reason]:
    """One for each resource that is short, of the user's limit, of the group's, and of what the queue has of
    its own for a group that may not be preempted. `NeverFits` where it would be short even if nothing were
    held, on any model."""
    limits = [
        ({"user": whose.owner}, facts.user_limit, facts.user_holds),
        ({"group": whose.group}, facts.group_limit, facts.group_holds),
    ]
    if facts.own is not None:
        limits.append(({"of": "nominal"}, facts.own, facts.queue_holds))
    return [
        reason
        for of, limit, held in limits
        for reason in _reasons(
            considered,
            whole=facts.shape,
            limit=limit,
            held=held,
            models=facts.models,
            scope={"queue": whose.queue, **of},
        )
    ]


def _reasons(
    shape: Shape,
    *,
    whole: Shape,
    limit: Mapping[str, int],
    held: Mapping[str, int],
    models: Sequence[str],
    scope: Mapping[str, str],
) -> Iterator[Reason]:
    rooms = {resource: max(0, most - held.get(resource, 0)) for resource, most in limit.items()}
    never = _short_of(whole, limit, models=models)
    for resource, need in _short_of(shape, rooms, models=models).items():
        of_resource = {"resource": resource}
        if resource not in (CPUS, MEMORY):
            of_resource = {"resource": "gpus", "flavor": resource}
        have, most = held.get(resource, 0), limit[resource]
        code = Code.NEVER_FITS if resource in never else Code.QUOTA_EXCEEDED
        yield Reason(
            code=code,
            message=message(code, need=need, have=have, limit=most, scope={**scope, **of_resource}),
            need=need,
            have=have,
            limit=most,
            scope={**scope, **of_resource},
        )


def _short_of(shape: Shape, rooms: Mapping[str, int], *, models: Sequence[str]) -> dict[str, int]:
    """What one unit needs of each resource of which there is too little room, whichever model it takes."""
    least = shape.at_least()
    total = least.total()
    short = {
        resource: need
        for resource, need in ((CPUS, total.cpus_milli), (MEMORY, total.memory_mib))
        if need > rooms.get(resource, need)
    }
    needs: dict[str, int] = {}
    for role in least.roles:
        gpus, count = role.requests.gpus, role.count if least.is_gang else 1
        choice = role.models or tuple(models)
        if not gpus or not choice:
            continue
        if len(choice) == 1:
            needs[choice[0]] = needs.get(choice[0], 0) + gpus * count
        elif sum(min(count, rooms.get(model, gpus * count) // gpus) for model in choice) < count:
            short |= {model: gpus * count for model in choice if model in rooms}
    short |= {model: need for model, need in needs.items() if need > rooms.get(model, need)}
    return dict(sorted(short.items()))
