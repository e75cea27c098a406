"""Which gangs find no place because no domain has a seat for all members of some role: told at once for all
that ask for the same seats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from service.admission.nodes.field import Field
from service.admission.nodes.query import ShapeQuery

#: Fields, and GPUs and CPUs of a member.
_Seat = tuple[tuple[Field, ...], int, int]


class Seatless:
    """Of some shapes, whenever it is asked."""

    def __init__(self, queries: Iterable[tuple[int, ShapeQuery]]) -> None:
        #: How many seats which shape asks for, the most first.
        self._asked: dict[_Seat, list[tuple[int, int]]] = {}
        for shape_id, query in queries:
            for role in query.roles if query.shape.is_gang else ():
                if role.requests.gpus:
                    seat = role.fields, role.requests.gpus, role.requests.cpus_milli
                    self._asked.setdefault(seat, []).append((role.count, shape_id))
        for asked in self._asked.values():
            asked.sort(reverse=True)

    def find(self) -> Iterator[int]:
        """As things are now; `place_gang` finds nothing for these either. Some more than once."""
        for (fields, gpus, cpus_milli), asked in self._asked.items():
            most = sum(field.rooms.most_seats(gpus, cpus_milli=cpus_milli) for field in fields)
            for count, shape_id in asked:
                if count <= most:
                    break
                yield shape_id
