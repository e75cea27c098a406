"""T1: what a launcher has that the books do not hold with exactly this attempt and places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.store.attempts import LAUNCHED, LiveAttempt
from service.store.work import LiveKey
from workers.launchers.base import GenerationKey, MemberObservation
from workers.reconcile import Sightings, has_ended

#: A device: node id and index on it.
Seats = set[tuple[int, int]]


@dataclass(slots=True)
class Strays:
    """`alive`: generations that are to be closed, with the devices that their members sit on.
    `ended`: generations of which the books know everything. `short_units`: units of which the launcher
    does not know a member any more."""

    alive: dict[GenerationKey, Seats] = field(default_factory=dict)
    ended: list[GenerationKey] = field(default_factory=list)
    short_units: set[int] = field(default_factory=set)


def strays_of(books: Sequence[LiveKey], sightings: Sightings, *, node_ids: Mapping[str, int]) -> Strays:
    """Compare all live attempts of a pool with all that its launcher knows.

    An earlier generation of a live attempt is left alone while it ends: it was closed before the next
    one was decided.
    """
    known = {live.unit_id: live for live in books}
    seen = sightings.by_generation()
    strays = Strays()
    for key, members in seen.items():
        live = known.get(key.unit_id)
        if live is None or key.attempt != live.attempt or key.generation > live.generation:
            living = [one for one in members if not has_ended(one)]
            if living:
                strays.alive[key] = _seats_of(living, node_ids)
            else:
                strays.ended.append(key)
    strays.short_units = {
        live.unit_id
        for live in books
        if live.dispatch == LAUNCHED
        and live.lacks_any_of(
            [
                one.key.member
                for one in seen.get(GenerationKey(live.unit_id, live.attempt, live.generation), ())
            ]
        )
    }
    return strays


def misplaced_of(
    attempts: Sequence[LiveAttempt], sightings: Sightings, *, node_ids: Mapping[str, int]
) -> list[tuple[LiveAttempt, Seats]]:
    """Attempts that live in other places than the books say, with the devices where they really are."""
    found = []
    for attempt in attempts:
        seen = sightings.of(attempt)
        living = [one for one in seen.values() if not has_ended(one)]
        places = {place.member: (place.node_id, place.devices) for place in attempt.places}
        if any(
            one.node is not None and places[one.key.member] != (node_ids.get(one.node), tuple(one.devices))
            for one in living
        ):
            found.append((attempt, _seats_of(living, node_ids)))
    return found


def _seats_of(members: Sequence[MemberObservation], node_ids: Mapping[str, int]) -> Seats:
    return {
        (node_ids[one.node], device)
        for one in members
        if one.node is not None and one.node in node_ids
        for device in one.devices
    }
