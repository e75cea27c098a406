"""The shape of a group: all that decides where it could be placed, and nothing else.

Groups of equal shape in one queue are one class for the planner, so a shape is stored once and
named by its digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from service.domain.queue import Filling
from service.domain.resources import CPUS, MEMORY, Resources


class Sizing(StrEnum):
    """When a gang may have another size than `count`, down to `min_count`: `at_start` only when it is
    admitted, `while_running` also later, without a new start of the members that stay."""

    AT_START = "at_start"
    WHILE_RUNNING = "while_running"


class Scheduling(StrEnum):
    """`gang`: members need each other. `independent`: each member is useful alone."""

    GANG = "gang"
    INDEPENDENT = "independent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Each `size` members that follow each other in number lie in one domain of the topology level. The
    count of the role is a multiple of it, and fixed."""

    level: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleShape:
    """Members of one role, for the planner. `models` in order of preference, empty for any.

    `node_labels` are sorted (label, value) pairs that a node must have; `min_gpu_memory_mib` 0
    for any. Members without GPUs have neither models nor GPU memory. `fallback_seconds`: how long the role
    would rather wait for its first model before the second is considered, and as long again for each after
    it; 0 for not at all.
    """

    name: str
    count: int
    min_count: int
    requests: Resources
    models: tuple[str, ...] = ()
    min_gpu_memory_mib: int = 0
    node_labels: tuple[tuple[str, str], ...] = ()
    slice: Slice | None = None
    fallback_seconds: int = 0

    def whole(self) -> Resources:
        """What all its members ask for."""
        return self.requests.times(self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the queue of a group allows. `flavors` and `pools`: names, None for all."""

    flavors: tuple[str, ...] | None = None
    pools: tuple[str, ...] | None = None
    filling: Filling = Filling.PACK

    def models(self, role: RoleShape) -> tuple[str, ...] | None:
        """Those that a role with GPUs may use, in its order of preference; empty for any, None if none of
        them is allowed."""
        if self.flavors is None:
            return role.models
        return tuple(each for each in role.models or self.flavors if each in self.flavors) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the planner sees of a group. `required`/`preferred` are names of topology levels; `sizing` of a
    gang of which some role has a `min_count` below its `count`, None of a rigid one. `terms` are those of
    its queue, and never stored with it."""

    scheduling: Scheduling
    roles: tuple[RoleShape, ...]
    required: str | None = None
    preferred: str | None = None
    sizing: Sizing | None = None
    terms: Terms = Terms()

    @property
    def member_count(self) -> int:
        return sum(role.count for role in self.roles)

    @property
    def is_gang(self) -> bool:
        return self.scheduling is Scheduling.GANG

    @property
    def is_elastic(self) -> bool:
        return self.sizing is not None

    @property
    def counts(self) -> tuple[int, ...]:
        """Members of each role."""
        return tuple(role.count for role in self.roles)

    @property
    def first_members(self) -> tuple[int, ...]:
        """The number of each role's first member; a member keeps its number whatever the size."""
        return tuple(sum(self.counts[:position]) for position in range(len(self.roles)))

    def of_size(self, counts: Sequence[int]) -> Shape:
        """The rigid shape with so many members of each role."""
        roles = (
            replace(role, count=count, min_count=count)
            for role, count in zip(self.roles, counts, strict=True)
        )
        return replace(self, roles=tuple(roles), sizing=None)

    def at_least(self) -> Shape:
        """What has to fit for a unit to be admitted: of an elastic gang its smallest size."""
        return self.of_size([role.min_count for role in self.roles]) if self.is_elastic else self

    def total(self) -> Resources:
        """What one unit asks for: a whole gang, or one member of an independent group."""
        if not self.is_gang:
            return self.roles[0].requests
        total = Resources()
        for role in self.roles:
            total = total.plus(role.whole())
        return total


def fallback_steps(shape: Shape) -> tuple[int, ...]:
    """After how many seconds of waiting another model is considered, by any of the roles."""
    steps: set[int] = set()
    for role in shape.roles:
        if role.fallback_seconds:
            models = shape.terms.models(role) or ()
            steps.update(role.fallback_seconds * number for number in range(1, len(models)))
    return tuple(sorted(steps)) if steps else ()


def usage_of(shape: Shape, models: dict[int, dict[str, int]]) -> dict[str, int]:
    """Amounts by quota resource for one placed unit; `models`: role position -> model -> GPUs."""
    total = shape.total()
    usage: dict[str, int] = {}
    for by_model in models.values():
        for model, gpus in by_model.items():
            usage[model] = usage.get(model, 0) + gpus
    usage[CPUS] = total.cpus_milli
    usage[MEMORY] = total.memory_mib
    return usage
