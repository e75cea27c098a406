"""Statuses of a unit, the edges between them, and the status of a group derived from its units.

The same edges are guarded in SQL by compare-and-set on (status, attempt, version).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Status(StrEnum):
    """Where a unit is in its life (the architecture's section 5)."""

    PENDING = "Pending"
    ADMITTED = "Admitted"
    STARTING = "Starting"
    RUNNING = "Running"
    RECOVERING = "Recovering"
    EVICTING = "Evicting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


class Cause(StrEnum):
    """Why a unit was evicted, failed or was cancelled. Only UserError counts against `max_restarts`."""

    USER_ERROR = "UserError"
    INFRASTRUCTURE = "Infrastructure"
    PREEMPTED = "Preempted"
    TIME_LIMIT = "TimeLimit"
    UNKNOWN = "Unknown"
    CANCELLED = "Cancelled"
    DEPENDENCY_NEVER_MET = "DependencyNeverMet"


#: Time that an attempt lost to the platform is not charged to its owner (the architecture's section 10).
NOT_CHARGED = (Cause.INFRASTRUCTURE, Cause.PREEMPTED)

#: The one table of edges. Evicting stores its target: Pending (next attempt), Failed or Cancelled.
EDGES: Mapping[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.ADMITTED, Status.CANCELLED}),
    Status.ADMITTED: frozenset({Status.STARTING, Status.EVICTING}),
    Status.STARTING: frozenset({Status.RUNNING, Status.RECOVERING, Status.EVICTING}),
    Status.RUNNING: frozenset({Status.RECOVERING, Status.SUCCEEDED, Status.EVICTING}),
    Status.RECOVERING: frozenset({Status.STARTING, Status.RUNNING, Status.EVICTING}),
    Status.EVICTING: frozenset({Status.PENDING, Status.FAILED, Status.CANCELLED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
}

ENDED: frozenset[Status] = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED})

#: A unit in one of these holds places.
LIVE: frozenset[Status] = frozenset(
    {Status.ADMITTED, Status.STARTING, Status.RUNNING, Status.RECOVERING, Status.EVICTING}
)

#: The first of these that a unit of the group has is the status of the group.
GROUP_RANK = (
    Status.RUNNING,
    Status.RECOVERING,
    Status.STARTING,
    Status.ADMITTED,
    Status.EVICTING,
    Status.PENDING,
    Status.CANCELLED,
    Status.FAILED,
    Status.SUCCEEDED,
)


def may_change(old: Status, new: Status) -> bool:
    return new in EDGES[old]


#: How a unit gets from one status to another that has no edge from it: what happened in between was
#: seen at once.
_BETWEEN: Mapping[tuple[Status, Status], tuple[Status, ...]] = {
    (Status.ADMITTED, Status.RUNNING): (Status.STARTING,),
    (Status.ADMITTED, Status.RECOVERING): (Status.STARTING,),
    (Status.ADMITTED, Status.SUCCEEDED): (Status.STARTING, Status.RUNNING),
    (Status.STARTING, Status.SUCCEEDED): (Status.RUNNING,),
    (Status.RECOVERING, Status.SUCCEEDED): (Status.RUNNING,),
}


def passed_through(old: Status, new: Status) -> tuple[Status, ...]:
    """Every status that a unit has on its way from `old` to `new`, `new` included, `old` not."""
    steps = (*_BETWEEN.get((old, new), ()), new)
    for before, after in zip((old, *steps), steps, strict=False):
        if not may_change(before, after):
            raise ValueError(f"a unit does not go from {old} to {new}")
    return steps


def group_status(counts: Mapping[Status, int]) -> Status:
    """Status of a group from the number of its members' units in each status.

    While any unit is live, the first of Running, Recovering, Starting, Admitted, Evicting that
    one of them has; else Pending if any waits; else Cancelled, Failed, Succeeded in that order.
    """
    for status in GROUP_RANK:
        if counts.get(status, 0) > 0:
            return status
    raise ValueError("a group has at least one unit")
