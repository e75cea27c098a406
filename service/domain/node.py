"""Places: which member sits on which node and devices."""

from __future__ import annotations

from dataclasses import dataclass

#: The innermost topology level and a label that every node has: its own name.
HOST = "host"


@dataclass(frozen=True, slots=True)
class Place:
    """One member's seat. `member` counts through the roles of a gang, or is the index of an
    independent member; `role` is the position of the role in the group; `devices` are GPU
    indexes on the node, empty for a member without GPUs."""

    member: int
    role: int
    node_id: int
    devices: tuple[int, ...]
