"""What is recorded when something changes: one event for each change, with its cause and actor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Kind(StrEnum):
    SUBMITTED = "Submitted"
    ADMITTED = "Admitted"
    STARTING = "Starting"
    RUNNING = "Running"
    RECOVERING = "Recovering"
    EVICTING = "Evicting"
    REQUEUED = "Requeued"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    HELD = "Held"
    RELEASED = "Released"
    RANGE_SPLIT = "RangeSplit"
    DEPENDENCY_MET = "DependencyMet"
    CHANGED = "Changed"
    MEMBER_ENDED = "MemberEnded"
    RESIZED = "Resized"
    RESIZE_DONE = "ResizeDone"
    RESIZE_REFUSED = "ResizeRefused"
    DISPATCH_REFUSED = "DispatchRefused"
    NODE_LOST = "NodeLost"
    NODE_DOWN = "NodeDown"
    NODE_UP = "NodeUp"
    NODE_CORDONED = "NodeCordoned"
    NODE_UNCORDONED = "NodeUncordoned"
    NODE_DRAINED = "NodeDrained"
    DEVICE_LOST = "DeviceLost"
    DEVICE_FOUND = "DeviceFound"
    QUEUE_CHANGED = "QueueChanged"
    COHORT_CHANGED = "CohortChanged"
    PRIORITY_CLASS_CHANGED = "PriorityClassChanged"
    SCHEDULING_CHANGED = "SchedulingChanged"
    LAUNCHER_UNREACHABLE = "LauncherUnreachable"
    LAUNCHER_BACK = "LauncherBack"


#: Kinds that change what may be admitted: the leader's feed reads these and nothing else (W1).
#: Changes of queues, pools, nodes and devices reach it by `config.version` (L2). Admitted and Resized are
#: the leader's own and already in its World. Each row of `units` that changed has an event of its own.
FEED: frozenset[Kind] = frozenset(
    {
        Kind.SUBMITTED,
        Kind.EVICTING,
        Kind.REQUEUED,
        Kind.SUCCEEDED,
        Kind.FAILED,
        Kind.CANCELLED,
        Kind.HELD,
        Kind.RELEASED,
        Kind.RANGE_SPLIT,
        Kind.DEPENDENCY_MET,
        Kind.CHANGED,
        Kind.RESIZE_DONE,
        Kind.RESIZE_REFUSED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`actor` is a user's name, or `muster` when nobody asked for it. `data` never holds secrets.
    `is_feed`: the leader's feed reads it, also if its kind is not one of FEED."""

    at: datetime
    kind: Kind
    actor: str = "muster"
    group_id: int | None = None
    unit_id: int | None = None
    node_id: int | None = None
    attempt: int | None = None
    generation: int | None = None
    cause: str | None = None
    data: Mapping[str, object] | None = None
    is_feed: bool = False
