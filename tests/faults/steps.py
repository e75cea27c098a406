"""Steps by which a moment is led up to: somebody stands still until what comes before is in the books, then
the point of the strike is set, and it goes on."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults import faults
from tests.faults.moments import SceneStrike

Step = Callable[[], object]


def arm_while_still(strike: SceneStrike, part: str, *steps: Step) -> None:
    """A part of the stack does nothing while these steps are taken."""
    with faults.frozen(strike.trial.up, part):
        _take(strike, steps)


def arm_behind(strike: SceneStrike, point: str, cause: Step, *steps: Step) -> None:
    """Whoever comes to `point` by this cause stands still there while these steps are taken."""
    strike.trial.point.set(point, "freeze")
    cause()
    with strike.frozen():
        _take(strike, steps)


def _take(strike: SceneStrike, steps: tuple[Step, ...]) -> None:
    for step in steps:
        step()
    strike.arm()
