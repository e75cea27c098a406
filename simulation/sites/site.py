"""A cluster under one policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from service.admission.policy import Policy
from service.admission.world import Configuration


class SiteWrong(ValueError):
    """A cluster or policy file that cannot be taken: a message for each place, with file and line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """From `at` on the node is down, or up again."""

    at: datetime
    node_id: int
    is_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A node is down from `down` until `up` (None: for good): instants, or times since the first submission
    of whatever log is replayed."""

    node_id: int
    down: datetime | timedelta
    up: datetime | timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """`policy`: how the whole cluster decides. `queue_of`: by tenant, its queue; the first of several in the
    order of the file. `open_queue`: the first that takes everybody. `shares`: by tenant that has a queue of
    its own, its nominal GPUs, or its part by weight of all GPUs where it has no quota."""

    name: str
    configuration: Configuration
    policy: Policy
    queue_of: Mapping[str, int] = field(default_factory=dict)
    open_queue: int | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    outages: tuple[Outage, ...] = ()

    def queue_for(self, tenant: str) -> int | None:
        """Where this tenant submits; None: nowhere."""
        return self.queue_of.get(tenant, self.open_queue)

    def events(self, start_at: datetime) -> tuple[NodeEvent, ...]:
        """What happens to nodes, in order, when the first submission comes at `start_at`."""
        events: list[NodeEvent] = []
        for outage in self.outages:
            for moment, is_up in ((outage.down, False), (outage.up, True)):
                if moment is not None:
                    at = start_at + moment if isinstance(moment, timedelta) else moment
                    events.append(NodeEvent(at=at, node_id=outage.node_id, is_up=is_up))
        return tuple(sorted(events, key=lambda event: (event.at, event.node_id, event.is_up)))
