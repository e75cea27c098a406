"""Sizes of an elastic gang, and which of them it gets.

Roles grow evenly: the next member goes to the role that has the least of its `count`, of several the
one that was declared first. A role for which there is no more room stays as it is while others grow.
So there is one order of sizes, and a gang shrinks by the same order backwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

from service.domain.node import Place
from service.domain.shape import Shape

#: Members of each role.
Counts = tuple[int, ...]

T = TypeVar("T")


def counts_of(shape: Shape, places: Iterable[Place]) -> Counts:
    """The size that these places make."""
    members = Counter(place.role for place in places)
    return tuple(members[position] for position in range(len(shape.roles)))


def next_role(shape: Shape, counts: Counts, *, closed: Collection[int] = ()) -> int | None:
    """The role that the next member goes to, None if no role may grow."""
    return min(
        (
            position
            for position, role in enumerate(shape.roles)
            if counts[position] < role.count and position not in closed
        ),
        key=lambda position: (counts[position] / shape.roles[position].count, position),
        default=None,
    )


def last_role(shape: Shape, counts: Counts) -> int | None:
    """The role that gives up the next member, None if none may: the one that would get it back."""
    return max(
        (position for position, role in enumerate(shape.roles) if counts[position] > role.min_count),
        key=lambda position: ((counts[position] - 1) / shape.roles[position].count, position),
        default=None,
    )


def largest(shape: Shape, place: Callable[[Counts], T | None]) -> T | None:
    """What `place` finds for the largest size for which it finds anything, None if not even for the
    smallest. Finding nothing for one size, it is not asked for larger ones in which no role is smaller."""
    found = place(shape.counts)
    if found is not None:
        return found
    counts = tuple(role.min_count for role in shape.roles)
    found = place(counts)
    closed: set[int] = set()
    while found is not None:
        steps = list(_steps(shape, counts, closed))
        good, bad = -1, len(steps)
        while bad - good > 1:
            middle = (good + bad) // 2
            better = place(steps[middle][1])
            if better is None:
                bad = middle
            else:
                good, found = middle, better
        if bad == len(steps):
            break
        counts = steps[good][1] if good >= 0 else counts
        closed.add(steps[bad][0])
    return found


def _steps(shape: Shape, counts: Counts, closed: Collection[int]) -> Iterator[tuple[int, Counts]]:
    """Sizes above `counts` in their order, each with the role that it has one member more of."""
    while (role := next_role(shape, counts, closed=closed)) is not None:
        counts = (*counts[:role], counts[role] + 1, *counts[role + 1 :])
        yield role, counts
