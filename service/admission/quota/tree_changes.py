"""Which parts of the tree of quotas another configuration touches: all else that was found out holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from service.admission.quota.nodes import QuotaNode
from service.admission.world import Configuration


class TreeChanges(NamedTuple):
    """`queues`: those of which anything is other than before that is said about them, or that bounds what
    they may hold; new ones and those that are gone are among them. `near`: all in trees in which anything
    has changed."""

    queues: frozenset[int] = frozenset()
    near: frozenset[int] = frozenset()


class Differences(NamedTuple):
    """Queues and cohorts that are new, gone or not as they were; and those cohorts that have another name."""

    queues: frozenset[int]
    cohorts: frozenset[int]
    renamed: frozenset[int]


def differences(before: Configuration, after: Configuration) -> Differences:
    one, other = before.cohorts, after.cohorts
    return Differences(
        queues=_unequal(before.queues, after.queues),
        cohorts=_unequal(one, other),
        renamed=frozenset(each for each in one.keys() & other.keys() if one[each].name != other[each].name),
    )


def touched_roots(
    found: Differences,
    after: Configuration,
    *,
    queues: Mapping[int, QuotaNode],
    cohorts: Mapping[int, QuotaNode],
) -> set[QuotaNode]:
    """Of the nodes as they are before the change: roots of trees in which something was, or will be, other
    than now."""
    nodes = [*(queues.get(each) for each in found.queues), *(cohorts.get(each) for each in found.cohorts)]
    for queue_id in found.queues & after.queues.keys():
        nodes.extend(map(cohorts.get, _above(after.queues[queue_id].cohort_id, after)))
    for cohort_id in found.cohorts & after.cohorts.keys():
        nodes.extend(map(cohorts.get, _above(after.cohorts[cohort_id].parent_id, after)))
    return {node.root for node in nodes if node is not None}


def stands_as(one: QuotaNode, other: QuotaNode, renamed: frozenset[int]) -> bool:
    """Whether a queue has, may borrow and is told the same at either node; not what others there hold, or
    have lent."""
    return all(
        above is not None
        and below is not None
        and _bounds(above) == _bounds(below)
        and (above.is_queue or above.id not in renamed)
        for above, below in zip_longest(one.path(), other.path())
    )


def _above(cohort_id: int | None, configuration: Configuration) -> Iterator[int]:
    while cohort_id is not None and cohort_id in configuration.cohorts:
        yield cohort_id
        cohort_id = configuration.cohorts[cohort_id].parent_id


def _bounds(node: QuotaNode) -> tuple[object, ...]:
    """Not its weight: that decides whose turn it is."""
    return (
        node.id,
        node.is_queue,
        node.quota,
        node.has_quota,
        node.counted,
        node.subtree,
        node.guaranteed,
    )


def _unequal(before: Mapping[int, object], after: Mapping[int, object]) -> frozenset[int]:
    return frozenset(each for each in before.keys() | after.keys() if before.get(each) != after.get(each))
