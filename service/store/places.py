"""An attempt's places as its row has them: [[member, role, node_id, [device, ...]], ...]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from service.domain.node import Place


def pack_places(places: Iterable[Place]) -> list[list[Any]]:
    return [[place.member, place.role, place.node_id, list(place.devices)] for place in places]


def places_of(stored: Sequence[Sequence[Any]]) -> tuple[Place, ...]:
    return tuple(Place(member, role, node, tuple(devices)) for member, role, node, devices in stored)
