"""T1: what a launcher has that the books do not hold with exactly this attempt and places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.store.attempts import LiveAttempt
from workers.launchers.base import GenerationKey, MemberObservation
from workers.reconcile import Sightings, has_ended


@dataclass(slots=True)
class Strays:
    """`alive`: generations that are to be closed, with the devices that their members sit on.
    `ended`: generations of which the books know everything. `misplaced`: attempts that are in the
    books and run in other places, with the devices where they really are."""

    alive: dict[GenerationKey, set[tuple[int, int]]] = field(default_factory=dict)
    ended: list[GenerationKey] = field(default_factory=list)
    misplaced: list[tuple[LiveAttempt, set[tuple[int, int]]]] = field(default_factory=list)


def strays_of(attempts: Sequence[LiveAttempt], sightings: Sightings, node_ids: Mapping[str, int]) -> Strays:
    """Compare all live attempts of a pool with all that its launcher knows.

    An earlier generation of a live attempt is left alone while it ends: it was closed before the next
    one was decided.
    """
    by_unit = {attempt.unit_id: attempt for attempt in attempts}
    strays = Strays()
    for key, members in sightings.by_generation.items():
        attempt = by_unit.get(key.unit_id)
        living = [seen for seen in members.values() if not has_ended(seen)]
        if attempt is None or key.attempt != attempt.attempt or key.generation > attempt.generation:
            if living:
                strays.alive[key] = _devices_of(living, node_ids)
            else:
                strays.ended.append(key)
        elif key.generation == attempt.generation and _is_misplaced(attempt, living, node_ids):
            strays.misplaced.append((attempt, _devices_of(living, node_ids)))
    return strays


def _is_misplaced(
    attempt: LiveAttempt, living: Sequence[MemberObservation], node_ids: Mapping[str, int]
) -> bool:
    places = {place.member: (place.node_id, place.devices) for place in attempt.places}
    return any(
        seen.node is not None
        and places.get(seen.key.member) != (node_ids.get(seen.node), tuple(seen.devices))
        for seen in living
    )


def _devices_of(members: Sequence[MemberObservation], node_ids: Mapping[str, int]) -> set[tuple[int, int]]:
    return {
        (node_ids[seen.node], device)
        for seen in members
        if seen.node is not None and seen.node in node_ids
        for device in seen.devices
    }
