"""Domains: which nodes lie together at a level of their pool's topology."""

from __future__ import annotations

from collections.abc import Mapping

from service.admission.world import Node, Pool
from service.domain.node import HOST

#: The pool's id, then the labels of the levels from the outermost to the required one, empty where
#: a node has no label of an outer level. Without a required level the whole pool is one domain.
Domain = tuple[int, *tuple[str, ...]]


def domain_of(node: Node, pools: Mapping[int, Pool], level: str | None) -> Domain | None:
    """The domain of `level` in which the node lies; None if its pool does not know the level or
    the node has no label of it."""
    if level is None:
        return (node.pool_id,)
    pool = pools.get(node.pool_id)
    levels = pool.levels if pool is not None else (HOST,)
    if level not in levels or level not in node.labels:
        return None
    path = levels[: levels.index(level) + 1]
    return (node.pool_id, *(node.labels.get(name, "") for name in path))
