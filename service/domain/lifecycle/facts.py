"""What the life of a unit is decided from: its members, its policy, its own row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import inf

from service.domain.group import OnMemberLoss
from service.domain.status import Cause, Status


class Phase(StrEnum):
    """What is known of a member. `Lost`: gone without an exit code."""

    UNKNOWN = "Unknown"
    STARTING = "Starting"
    READY = "Ready"
    ENDED = "Ended"
    LOST = "Lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member of the present generation. `log_tail`: its last lines, already free of secrets.
    `is_node_lost`: its node is down or was started anew, which is why a Lost one is."""

    member: int
    node_id: int
    node: str
    phase: Phase = Phase.UNKNOWN
    exit_code: int | None = None
    ended_at: datetime | None = None
    was_told_to_stop: bool = False
    cannot_execute: bool = False
    detail: str | None = None
    log_tail: str | None = None
    is_node_lost: bool = False

    @property
    def has_succeeded(self) -> bool:
        """An exit 0 after being told to stop is no success."""
        return self.phase is Phase.ENDED and self.exit_code == 0 and not self.was_told_to_stop

    @property
    def has_failed(self) -> bool:
        return self.phase is Phase.ENDED and not self.has_succeeded

    @property
    def is_ready(self) -> bool:
        """A member that ended with 0 counts as having been ready."""
        return self.phase is Phase.READY or self.has_succeeded


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the owner and the operator chose. Times in seconds."""

    on_member_loss: OnMemberLoss = OnMemberLoss.RESTART_GROUP
    max_restarts: int = 3
    backoff_seconds: int = 30
    seat_timeout_seconds: int = 600
    max_dispatches: int = 5
    dispatch_backoff_seconds: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitView:
    """The unit and its attempt. `is_launched`: the present generation was handed to the launcher
    and is not being stopped. `infrastructure_losses`: how often this attempt has started again in place
    for no fault of its own. `start_deadline_at` None: it has none, or has been Running in this attempt.
    `loss_cause` and `loss_message` tell why it is Recovering. `down_nodes`: nodes of its places that
    are not ready."""

    status: Status
    is_launched: bool
    restarts_used: int = 0
    refused_dispatches: int = 0
    failed_nodes: tuple[int, ...] = ()
    infrastructure_losses: int = 0
    start_deadline_at: datetime | None = None
    time_limit_at: datetime | None = None
    seat_deadline_at: datetime | None = None
    loss_cause: Cause | None = None
    loss_message: str | None = None
    down_nodes: tuple[int, ...] = ()


def first_failed(failed: Sequence[MemberView]) -> MemberView:
    """The failure that came first: the others often follow from it."""
    return min(failed, key=lambda m: (m.ended_at.timestamp() if m.ended_at else inf, m.member))
