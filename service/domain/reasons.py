"""Why a unit is not admitted: a closed list of codes, each with numbers.

Codes, families and their order are the architecture's section 7. The first reason of a list is
the one to look at: what only its owner or an operator can change comes before what time changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Code(StrEnum):
    NEVER_FITS = "NeverFits"
    QUEUE_MISSING = "QueueMissing"
    QUEUE_STOPPED = "QueueStopped"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    ON_HOLD = "OnHold"
    DEPENDENCY_PENDING = "DependencyPending"
    BACKING_OFF = "BackingOff"
    DISPATCH_REFUSED = "DispatchRefused"
    QUOTA_EXCEEDED = "QuotaExceeded"
    BORROWING_LIMIT = "BorrowingLimit"
    LENDING_LIMIT = "LendingLimit"
    INSUFFICIENT_GPUS = "InsufficientGpus"
    INSUFFICIENT_CPU = "InsufficientCpu"
    INSUFFICIENT_MEMORY = "InsufficientMemory"
    FRAGMENTED = "Fragmented"
    TOPOLOGY_UNSATISFIED = "TopologyUnsatisfied"
    NODES_UNAVAILABLE = "NodesUnavailable"
    DEVICES_UNHEALTHY = "DevicesUnhealthy"
    PREEMPTION_IN_PROGRESS = "PreemptionInProgress"
    PREEMPTION_DELAYED = "PreemptionDelayed"
    HELD_FOR_CLAIM = "HeldForClaim"
    WAITING_FOR_TURN = "WaitingForTurn"
    PENDING_EVALUATION = "PendingEvaluation"


_RANK = {code: rank for rank, code in enumerate(Code)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One blocker. `need`, `have` and `limit` are in the unit of the resource that `scope` names
    (GPUs, thousandths of a CPU, MiB); `scope` holds queue, flavor, level, nodes and the like;
    `holders` are public ids of groups."""

    code: Code
    message: str
    need: int | None = None
    have: int | None = None
    limit: int | None = None
    scope: Mapping[str, str] = field(default_factory=dict)
    holders: tuple[str, ...] = ()
    since: datetime | None = None
    cycle_id: int | None = None


def rank(code: Code) -> int:
    """Position of a code in every list of reasons, the most decisive first."""
    return _RANK[code]


#: Families of codes, for those who act on kinds of reasons.
FAMILIES: Mapping[str, tuple[Code, ...]] = {
    "QUOTA": (Code.QUOTA_EXCEEDED,),
    "BORROW_LIMIT": (Code.BORROWING_LIMIT, Code.LENDING_LIMIT),
    "CAPACITY": (Code.INSUFFICIENT_GPUS, Code.INSUFFICIENT_CPU, Code.INSUFFICIENT_MEMORY),
    "FRAGMENTATION": (Code.FRAGMENTED,),
    "TOPOLOGY": (Code.TOPOLOGY_UNSATISFIED,),
    "NODE_HEALTH": (Code.NODES_UNAVAILABLE, Code.DEVICES_UNHEALTHY),
    "CONFIG": (Code.NO_MATCHING_FLAVOR, Code.QUEUE_STOPPED, Code.QUEUE_MISSING),
    "ORDER": (
        Code.WAITING_FOR_TURN,
        Code.HELD_FOR_CLAIM,
        Code.PREEMPTION_IN_PROGRESS,
        Code.PREEMPTION_DELAYED,
    ),
    "HOLD": (Code.ON_HOLD,),
    "DEPENDENCY": (Code.DEPENDENCY_PENDING,),
    "BACKOFF": (Code.BACKING_OFF,),
    "DISPATCH": (Code.DISPATCH_REFUSED,),
    "INFEASIBLE": (Code.NEVER_FITS,),
    "EVALUATION": (Code.PENDING_EVALUATION,),
}

_FAMILY_OF = {code: family for family, codes in FAMILIES.items() for code in codes}


def family(code: Code) -> str:
    return _FAMILY_OF[code]
