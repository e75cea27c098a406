"""Which member sits where, once it is known how many sit on which node.

Of one role neighbours in number sit in one domain of each level, and on one node, as far as places allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from service.admission.nodes.state import NodeState
from service.admission.placement.scratch import Share
from service.domain.node import Place
from service.domain.shape import Shape


def gang_places(shape: Shape, shares: Sequence[Share], nodes: Mapping[int, NodeState]) -> Iterator[Place]:
    """Members are numbered through the roles of `shape`, also where not all of them are there."""
    for position, first in enumerate(shape.first_members):
        own = sorted(
            (share for share in shares if share.role == position),
            key=lambda share: (nodes[share.node_id].rank, share.model),
        )
        seats = ((share.node_id, devices) for share in own for devices in devices_of_members(share))
        for member, (node_id, devices) in enumerate(seats, first):
            yield Place(member, position, node_id, devices)


def devices_of_members(share: Share) -> Iterator[tuple[int, ...]]:
    for member in range(share.seats):
        yield tuple(sorted(share.devices[member * share.gpus : (member + 1) * share.gpus]))
