"""Domains: which nodes lie together at a level of their pool's topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from service.admission.world import Node, Pool
from service.domain.node import HOST

#: The pool's id, then the labels of the levels from the outermost to the required one, empty where
#: a node has no label of an outer level. Without a required level the whole pool is one domain.
Domain = tuple[int, *tuple[str, ...]]

_HOST_ONLY = (HOST,)


class Rung(NamedTuple):
    """A level at which a gang is tried before wider ones. `inside`: by pool that has it, the position in a
    domain of the label that must not be empty, for the domain to lie in one of the required level."""

    level: str
    inside: Mapping[int, int]

    def allows(self, domain: Domain) -> bool:
        position = self.inside.get(domain[0])
        return position is not None and domain[position] != ""


def domain_of(node: Node, pools: Mapping[int, Pool], level: str | None) -> Domain | None:
    """The domain of `level` in which the node lies; None if its pool does not know the level or
    the node has no label of it (an empty one is none)."""
    if level is None:
        return (node.pool_id,)
    path = path_to(level, labels=node.labels, levels=_levels_of(node, pools))
    return None if path is None else (node.pool_id, *path)


def path_to(level: str, *, labels: Mapping[str, str], levels: Sequence[str]) -> tuple[str, ...] | None:
    """The labels of a node from the outermost of its pool's levels to `level`; None as for `domain_of`."""
    if level not in levels or not labels.get(level):
        return None
    return tuple(labels.get(name, "") for name in levels[: levels.index(level) + 1])


def path_of(node: Node, pools: Mapping[int, Pool]) -> tuple[int, tuple[str, ...], int]:
    """Sorts nodes so that those of one domain follow each other, at each level of their pool."""
    levels = (name for name in _levels_of(node, pools) if name != HOST)
    return node.pool_id, tuple(node.labels.get(name, "") for name in levels), node.id


def ladder(pools: Mapping[int, Pool], preferred: str | None, required: str | None) -> tuple[Rung, ...]:
    """The levels to try one after the other: the preferred one, then the next wider, up to the required one,
    which is not among them. A pool that does not have the preferred level has no rung."""
    rungs: dict[tuple[int, str], dict[int, int]] = {}
    for pool in pools.values() if preferred is not None else ():
        levels = pool.levels
        if preferred not in levels or (required is not None and required not in levels):
            continue
        innermost = levels.index(preferred)
        outermost = -1 if required is None else levels.index(required)
        for index in range(innermost, outermost, -1):
            rungs.setdefault((innermost - index, levels[index]), {})[pool.id] = outermost + 1
    return tuple(Rung(level, inside) for (_, level), inside in sorted(rungs.items()))


def lengths_at(pools: Mapping[int, Pool], level: str) -> dict[int, int]:
    """How many parts a domain of the level has, by pool that has the level."""
    return {pool.id: pool.levels.index(level) + 2 for pool in pools.values() if level in pool.levels}


def _levels_of(node: Node, pools: Mapping[int, Pool]) -> tuple[str, ...]:
    pool = pools.get(node.pool_id)
    return pool.levels if pool is not None else _HOST_ONLY
