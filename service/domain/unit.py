"""Identity of a unit: what is admitted as one."""

from __future__ import annotations

#: A unit's id packs its group and the last member index that its row covers. A range of waiting
#: members is split from below, so the id of what keeps waiting never changes, and the ids of the
#: members that are split off are known before anything is written. A gang has index 0.
INDEX_BITS = 20
MAX_MEMBERS = 1 << INDEX_BITS


def unit_id(group_id: int, last_index: int) -> int:
    if not 0 <= last_index < MAX_MEMBERS:
        raise ValueError(f"a member index lies between 0 and {MAX_MEMBERS - 1}, not {last_index}")
    return (group_id << INDEX_BITS) | last_index


def group_of(unit: int) -> int:
    return unit >> INDEX_BITS


def index_of(unit: int) -> int:
    return unit & (MAX_MEMBERS - 1)
