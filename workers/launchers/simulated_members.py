"""Members of a simulated cluster, by key, by unit, and as a launcher reports them."""

from __future__ import annotations

from workers.launchers.base import MemberKey, MemberObservation, MemberState
from workers.launchers.simulated_journal import SimulatedMember

Key = tuple[int, int, int, int]


class MemberTable:
    """Observations are made when a member changes, so that to report many costs little."""

    def __init__(self) -> None:
        self._members: dict[Key, SimulatedMember] = {}
        self._by_unit: dict[int, dict[Key, SimulatedMember]] = {}
        self._seen: dict[str, dict[Key, MemberObservation]] = {}
        self._kept: dict[Key, SimulatedMember] = {}
        self._sitting: dict[tuple[str, int], MemberKey] = {}
        self._changed: dict[Key, SimulatedMember] = {}
        self._forgotten: list[Key] = []

    def find(self, key: Key) -> SimulatedMember | None:
        return self._members.get(key)

    def of_unit(self, pool: str, unit_id: int) -> list[SimulatedMember]:
        return [one for one in self._by_unit.get(unit_id, {}).values() if one.pool == pool]

    def live(self, group: str | None = None) -> list[SimulatedMember]:
        return [one for one in self._members.values() if one.is_live and group in (None, one.group)]

    def live_on(self, node: str) -> list[SimulatedMember]:
        return [one for one in self._members.values() if one.is_live and one.node == node]

    def observations(self, pool: str) -> list[MemberObservation]:
        return list(self._seen.get(pool, {}).values())

    def add(self, member: SimulatedMember) -> None:
        self._members[member.key] = member
        self._by_unit.setdefault(member.unit_id, {})[member.key] = member
        self._seen.setdefault(member.pool, {})[member.key] = _observation(member)

    def touch(self, member: SimulatedMember) -> None:
        """It has changed: it is seen anew, and written."""
        self._changed[member.key] = member
        self._seen.setdefault(member.pool, {})[member.key] = _observation(member)

    def remove(self, member: SimulatedMember, *, is_kept: bool) -> None:
        """Forget it; one that is kept can be recalled."""
        del self._members[member.key]
        del self._seen[member.pool][member.key]
        del self._by_unit[member.unit_id][member.key]
        if not self._by_unit[member.unit_id]:
            del self._by_unit[member.unit_id]
        self._forgotten.append(member.key)
        if is_kept:
            self._kept[member.key] = member

    def recall(self, key: Key) -> None:
        member = self._kept.pop(key, None)
        if member is not None:
            self.add(member)

    def sit_down(self, member: SimulatedMember) -> list[tuple[MemberKey, MemberKey]]:
        """It takes its devices. Gives who sits on one of them already, beside the newcomer."""
        key = MemberKey(*member.key)
        sitting = [self._sitting.setdefault((member.node, device), key) for device in member.devices]
        return [(one, key) for one in sitting if one != key]

    def stand_up(self, member: SimulatedMember) -> None:
        for device in member.devices:
            if self._sitting.get((member.node, device)) == MemberKey(*member.key):
                del self._sitting[member.node, device]

    def take_changes(self) -> tuple[list[SimulatedMember], list[Key]]:
        """What changed, and what was forgotten, since this was asked last."""
        changed, forgotten = list(self._changed.values()), self._forgotten
        self._changed, self._forgotten = {}, []
        return changed, forgotten


def _observation(member: SimulatedMember) -> MemberObservation:
    if member.is_lost:
        state = MemberState.LOST
    elif not member.is_live:
        state = MemberState.ENDED
    else:
        state = MemberState.READY if member.is_ready else MemberState.STARTING
    return MemberObservation(
        key=MemberKey(*member.key),
        state=state,
        exit_code=member.exit_code if state is MemberState.ENDED else None,
        ended_at=member.ended_at,
        was_told_to_stop=member.was_told_to_stop,
        detail=f"node {member.node} went down" if member.is_lost else None,
        node=member.node,
        devices=member.devices,
        is_node_lost=member.is_lost,
    )
