"""Shapes on the terms of a queue that allows only some flavors or pools, or spreads its groups.

In the World a unit of such a queue has a shape of its own, which says the terms: so all that is found out
about a shape holds for every queue with equal terms, and for no other. Its number is negative, and the
same whatever came first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from service.admission.world import PendingUnit, Queue, RunningUnit
from service.domain.shape import Shape, Terms

Unit = TypeVar("Unit", PendingUnit, RunningUnit)

#: A queue's terms, and the lowest id of a queue that has equal ones.
TermsOf = Mapping[int, tuple[Terms, int]]

#: A number holds the step of its models, the stored shape, and the queue: 63 bits in all.
_QUEUE_BITS = 31
_WHOLE_BITS = 60
_WHOLE = (1 << _WHOLE_BITS) - 1


def terms_of(queue: Queue) -> Terms:
    policy = queue.policy
    return Terms(flavors=policy.flavors, pools=policy.pools, filling=policy.filling)


def terms_by_queue(queues: Mapping[int, Queue]) -> TermsOf:
    """Of those queues that say anything."""
    first: dict[Terms, int] = {}
    found: dict[int, tuple[Terms, int]] = {}
    for queue_id in sorted(queues):
        terms = terms_of(queues[queue_id])
        if terms != Terms():
            found[queue_id] = terms, first.setdefault(terms, queue_id)
    return found


def stored_shape_id(shape_id: int) -> int:
    """The shape that was submitted."""
    return shape_id if shape_id >= 0 else (-shape_id & _WHOLE) >> _QUEUE_BITS


def whole_id(shape_id: int) -> int:
    """The shape on the terms of the queue, with all of its models."""
    whole = -shape_id & _WHOLE if shape_id < 0 else 0
    if whole == -shape_id or shape_id >= 0:
        return shape_id
    return -whole if whole & ((1 << _QUEUE_BITS) - 1) else whole >> _QUEUE_BITS


def at_stage_id(whole: int, stage: int) -> int:
    """A number for the models that are considered from this step on (see `fallback`)."""
    body = -whole if whole < 0 else whole << _QUEUE_BITS
    return -(((stage + 1) << _WHOLE_BITS) | body)


def on_terms(unit: Unit, terms: TermsOf, shapes: dict[int, Shape]) -> Unit:
    """The unit with its shape on the terms of its queue, which is added to `shapes`."""
    stored = stored_shape_id(unit.shape_id)
    shape_id = stored
    if unit.queue_id in terms:
        own, first = terms[unit.queue_id]
        shape_id = -((stored << _QUEUE_BITS) | first)
        shape = shapes[stored]
        if shape_id not in shapes or shapes[shape_id].terms != own:
            shapes[shape_id] = replace(shape, terms=own)
    return unit if shape_id == unit.shape_id else replace(unit, shape_id=shape_id)
