"""Moments in a life that a test leads up to, and the points that are passed from each of them on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.strikes import Strike
from tests.faults.trial import Scene

SceneStrike = Strike[Scene]
Moment = Callable[[SceneStrike], None]


class Moments(dict[Moment, tuple[str, ...]]):
    """By moment, the points that somebody passes next, in about this order."""

    def passes(self, *points: str) -> Callable[[Moment], Moment]:
        """Note that these points are passed from this moment on."""

        def note(moment: Moment) -> Moment:
            self[moment] = points
            return moment

        return note

    def points(self) -> set[str]:
        return {point for points in self.values() for point in points}

    def cases(self) -> list[object]:
        """For a test of (moment, point). Every other one is of another stack, so that two can be at work."""
        pairs = [(moment, point) for moment, points in self.items() for point in points]
        return [
            pytest.param(
                moment,
                point,
                id=f"{moment.__name__}-{point}",
                marks=pytest.mark.xdist_group(f"points-{number % 2}"),
            )
            for number, (moment, point) in enumerate(pairs)
        ]
