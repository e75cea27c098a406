"""What has come of all that happened at one instant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from service.admission.past_use import Charge
from service.admission.world import Changes, Configuration, PendingUnit, RunningUnit
from service.domain.shape import Shape
from service.domain.status import Cause, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """An attempt that is over. `to`: what its unit is from now on; Pending waits again. `lost_seconds`: how
    long it ran before a start in place, which had to be done again."""

    unit: RunningUnit
    to: Status
    cause: Cause | None
    lost_seconds: float = 0.0

    @property
    def gpus(self) -> int:
        return sum(len(place.devices) for place in self.unit.places)


@dataclass(slots=True)
class News:
    """States that the World is told of. `withdrawn`: units that ended while they waited; `ended`: groups of
    which nothing waits or runs any more."""

    shapes: dict[int, Shape] = field(default_factory=dict)
    pending: dict[int, PendingUnit] = field(default_factory=dict)
    running: dict[int, RunningUnit] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    charges: dict[tuple[int, int], tuple[Charge, ...]] = field(default_factory=dict)
    configuration: Configuration | None = None
    submitted: list[PendingUnit] = field(default_factory=list)
    closed: list[Closed] = field(default_factory=list)
    withdrawn: list[PendingUnit] = field(default_factory=list)
    ended: list[tuple[int, Status]] = field(default_factory=list)

    def changes(self) -> Changes:
        """An attempt that ended gives up nothing any more."""
        over = self.gone | self.pending.keys()
        return Changes(
            configuration=self.configuration,
            shapes=self.shapes,
            pending={unit_id: row for unit_id, row in self.pending.items() if unit_id not in self.gone},
            running={unit_id: unit for unit_id, unit in self.running.items() if unit_id not in over},
            gone=frozenset(self.gone),
            charges=self.charges,
        )

    def charge(self, closed: Closed, charges: Iterable[Charge]) -> None:
        self.closed.append(closed)
        if counted := tuple(charges):
            self.charges[closed.unit.id, closed.unit.attempt] = counted
