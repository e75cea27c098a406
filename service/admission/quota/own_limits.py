"""The most that one user, or one group, may hold in a queue. Limits that were lowered evict nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from service.admission.nodes.query import ShapeQuery
from service.admission.quota.book import exceeded_models
from service.admission.quota.own_use import Amounts, OwnUse, UserKey
from service.admission.world import PendingUnit, RunningUnit
from service.domain.resources import CPUS, MEMORY

Unit = PendingUnit | RunningUnit

_NOTHING: Mapping[str, int] = {}


class OwnLimits:
    """Of one cycle: what is held, and what the cycle adds. Within it use only grows, so a row that was over
    its limit stays so."""

    def __init__(self, use: OwnUse, query_of: Callable[[int], ShapeQuery]) -> None:
        self._use = use
        self._query_of = query_of
        self._users: dict[UserKey, Amounts] = {}
        self._groups: dict[int, Amounts] = {}
        self._charged: set[int] = set()
        #: Shapes that are too much, by user of a queue, and by group.
        self._over: set[tuple[UserKey | int, int]] = set()

    @property
    def has_any(self) -> bool:
        """Whether any queue limits its users or groups."""
        return bool(self._use.limited)

    def is_limited(self, queue_id: int) -> bool:
        return queue_id in self._use.limited

    def is_charged(self, queue_id: int) -> bool:
        """Whether the cycle adds anything to what users and groups hold in the queue."""
        return queue_id in self._charged

    def is_over(self, row: PendingUnit) -> bool:
        """Whether one unit of the row is too much for its owner or group, whichever model it takes: it is
        passed over, and blocks nobody."""
        if row.queue_id not in self._use.limited:
            return False
        user, group = ((row.queue_id, row.owner), row.shape_id), (row.group_id, row.shape_id)
        if user in self._over or group in self._over:
            return True
        query, policy = self._query_of(row.shape_id), self._use.limited[row.queue_id]
        if policy.user_limit and exceeded(query, self._user_rooms(row)):
            self._over.add(user)
        elif policy.group_limit and exceeded(query, self._group_rooms(row)):
            self._over.add(group)
        else:
            return False
        return True

    def binds(self, row: PendingUnit) -> bool:
        """Whether the limits leave the row less than it could take: if it does not fit, that says nothing of
        the rows of others."""
        query = self._query_of(row.shape_id)
        rooms = self.rooms(row)
        return any(query.most.get(resource, 0) > room for resource, room in rooms.items())

    def pass_over(self, row: PendingUnit) -> None:
        """Neither this row nor others of its shape and owner are tried again."""
        policy = self._use.limited[row.queue_id]
        key = (row.queue_id, row.owner) if policy.user_limit else row.group_id
        self._over.add((key, row.shape_id))

    def rooms(self, row: Unit) -> dict[str, int]:
        """How much more owner and group may take, of each resource that is limited."""
        if row.queue_id not in self._use.limited:
            return {}
        rooms = self._user_rooms(row)
        for resource, room in self._group_rooms(row).items():
            rooms[resource] = min(room, rooms.get(resource, room))
        return rooms

    def charge(self, row: Unit, usage: Mapping[str, int]) -> None:
        if row.queue_id in self._use.limited:
            self._charged.add(row.queue_id)
            user = self._users.setdefault((row.queue_id, row.owner), {})
            group = self._groups.setdefault(row.group_id, {})
            for resource, amount in usage.items():
                user[resource] = user.get(resource, 0) + amount
                group[resource] = group.get(resource, 0) + amount

    def _user_rooms(self, row: Unit) -> dict[str, int]:
        key = row.queue_id, row.owner
        held, added = self._use.users.get(key, _NOTHING), self._users.get(key, _NOTHING)
        return _rooms(self._use.limited[row.queue_id].user_limit, held, added)

    def _group_rooms(self, row: Unit) -> dict[str, int]:
        key = row.group_id
        held, added = self._use.groups.get(key, _NOTHING), self._groups.get(key, _NOTHING)
        return _rooms(self._use.limited[row.queue_id].group_limit, held, added)


def exceeded(query: ShapeQuery, rooms: Mapping[str, int]) -> tuple[str, ...]:
    """Resources of which one unit takes more than there is room for, whichever model it takes."""
    found = [
        each for each in (CPUS, MEMORY) if query.most.get(each, 0) > rooms.get(each, query.most.get(each, 0))
    ]
    caps = {model: rooms[model] for model in query.models if model in rooms}
    return (*found, *exceeded_models(query, caps))


def members_within(query: ShapeQuery, rooms: Mapping[str, int], want: int) -> int:
    """How many of `want` independent members CPUs and memory allow."""
    for resource, need in ((CPUS, query.total.cpus_milli), (MEMORY, query.total.memory_mib)):
        if need and resource in rooms:
            want = min(want, rooms[resource] // need)
    return want


def _rooms(limit: Mapping[str, int], held: Mapping[str, int], added: Mapping[str, int]) -> dict[str, int]:
    return {
        resource: max(0, most - held.get(resource, 0) - added.get(resource, 0))
        for resource, most in limit.items()
    }
