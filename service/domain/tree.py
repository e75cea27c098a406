"""Queues, cohorts and priority classes as admins set them up: one refers to another by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from service.domain.queue import Order, QueuePolicy, Quota, Stop
from service.domain.scheduling import SchedulingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """`tenant` None takes everybody's groups; `cohort` None lends to nobody and borrows from nobody."""

    name: str
    tenant: str | None = None
    cohort: str | None = None
    order: Order = Order.BEST_EFFORT
    stop: Stop = Stop.NONE
    quota: Quota = field(default_factory=Quota)
    policy: QueuePolicy = field(default_factory=QueuePolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortSettings:
    """`quota`: what the cohort has besides that of its members, and how much the whole of it borrows from
    and lends to its parent. Its nominal amounts are always given, and it has no limits."""

    name: str
    parent: str | None = None
    weight: float = 1.0
    quota: Quota = field(default_factory=lambda: Quota(nominal={}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Everything at once, by name. `priority_classes`: the priority that each of them stands for.
    `scheduling` None: nothing is said of it."""

    cohorts: Mapping[str, CohortSettings] = field(default_factory=dict)
    queues: Mapping[str, QueueSettings] = field(default_factory=dict)
    priority_classes: Mapping[str, int] = field(default_factory=dict)
    scheduling: SchedulingSettings | None = None


class Named(NamedTuple):
    """One thing of a tree: a `cohort`, a `queue`, a `priority_class`, or `scheduling` of the cluster."""

    kind: str
    name: str


SCHEDULING = Named("scheduling", "cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a file says. `places`: where in it each thing stands, such as `queues[3]`. `is_all`: what it does
    not name is deleted."""

    tree: Tree
    places: Mapping[Named, str]
    is_all: bool = False

    def place(self, what: Named) -> str:
        """Of what is not in the file, its kind and name."""
        return self.places.get(what, f"{what.kind} {what.name}")
