"""What single users and groups hold in queues that limit them; of other queues nothing is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from service.admission.world import Configuration, RunningUnit
from service.domain.queue import QueuePolicy

Amounts = dict[str, int]
UserKey = tuple[int, str]


class OwnUse:
    """`limited`: the policies of queues that limit users or groups. By queue and owner, and by group."""

    def __init__(self, configuration: Configuration, running: Iterable[RunningUnit]) -> None:
        self.limited = _limited(configuration)
        self.users: dict[UserKey, Amounts] = {}
        self.groups: dict[int, Amounts] = {}
        #: Counts, by queue, the changes of what is held.
        self.revisions: Counter[int] = Counter()
        if self.limited:
            for unit in running:
                self.start(unit)

    def follow(self, configuration: Configuration, running: Iterable[RunningUnit]) -> OwnUse:
        """With the limits that queues have now."""
        if _limited(configuration) == self.limited:
            return self
        other = OwnUse(configuration, running)
        # A count that was seen before stands for nothing else.
        other.revisions.update(self.revisions.keys() | other.revisions.keys())
        other.revisions.update(self.revisions)
        return other

    def start(self, unit: RunningUnit) -> None:
        self._add(unit, 1)

    def end(self, unit: RunningUnit) -> None:
        self._add(unit, -1)

    def _add(self, unit: RunningUnit, sign: int) -> None:
        if unit.queue_id not in self.limited:
            return
        self.revisions[unit.queue_id] += 1
        user = self.users.setdefault((unit.queue_id, unit.owner), {})
        group = self.groups.setdefault(unit.group_id, {})
        for resource, amount in unit.usage.items():
            user[resource] = user.get(resource, 0) + sign * amount
            group[resource] = group.get(resource, 0) + sign * amount
        if not any(group.values()):
            del self.groups[unit.group_id]
        if not any(user.values()):
            del self.users[unit.queue_id, unit.owner]


def _limited(configuration: Configuration) -> Mapping[int, QueuePolicy]:
    return {
        queue.id: queue.policy
        for queue in configuration.queues.values()
        if queue.policy.user_limit or queue.policy.group_limit
    }
