"""How members of a simulated cluster live: they start, end by the clock, are told to stop, and are killed."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import datetime, timedelta

from workers.launchers.simulated_behaviour import Behaviours, Exit
from workers.launchers.simulated_journal import SimulatedMember
from workers.launchers.simulated_members import Key, MemberTable
from workers.launchers.simulated_records import Records

_SIGTERM_CODE, _SIGKILL_CODE = 128 + 15, 128 + 9


class Lives:
    """Changes members of `members`, as `behaviours` say, and writes down what happens unless `keeps_records`
    is False. What falls due has happened only after `settle`."""

    def __init__(self, members: MemberTable, behaviours: Behaviours, *, keeps_records: bool) -> None:
        self.records = Records()
        self._members = members
        self._behaviours = behaviours
        self._keeps_records = keeps_records
        self._due: list[tuple[datetime, Key]] = []

    def next_due_at(self) -> datetime | None:
        return self._due[0][0] if self._due else None

    def settle(self, now: datetime) -> None:
        """Everything that fell due by the clock has happened, at its instant."""
        while self._due and self._due[0][0] <= now:
            at, key = heapq.heappop(self._due)
            member = self._members.find(key)
            if member is not None and member.is_live:
                self.end(member, at=at, exit_code=_code_at(member, at))

    def recall(self, members: Iterable[SimulatedMember]) -> None:
        """They lived, or had ended, before the process that simulates them was started."""
        for member in members:
            self._members.add(member)
            if member.is_live:
                for due in filter(None, (member.ends_at, member.stops_at, member.kill_at)):
                    heapq.heappush(self._due, (due, member.key))
                self._members.sit_down(member)

    def start(self, member: SimulatedMember, *, now: datetime) -> None:
        if member.ends_at is not None:
            heapq.heappush(self._due, (member.ends_at, member.key))
        self._members.add(member)
        self._members.touch(member)
        self.records.double_booked += self._members.sit_down(member)
        if self._keeps_records:
            self.records.add_start(now, member)

    def tell_to_stop(self, member: SimulatedMember, *, now: datetime, grace_seconds: float) -> None:
        """SIGTERM, once."""
        member.was_told_to_stop = True
        self._members.touch(member)
        how = self._behaviours.of(member.group).exits
        if how is Exit.WHEN_TOLD:
            return
        if how is Exit.AT_ONCE and not member.stop_seconds:
            self.end(member, at=now, exit_code=_SIGTERM_CODE)
            return
        member.kill_at = now + timedelta(seconds=grace_seconds)
        heapq.heappush(self._due, (member.kill_at, member.key))
        if how is Exit.AT_ONCE:
            member.stops_at = now + timedelta(seconds=member.stop_seconds)
            heapq.heappush(self._due, (member.stops_at, member.key))

    def kill(self, member: SimulatedMember, *, now: datetime) -> bool:
        """SIGKILL; False if it survives even that."""
        member.was_told_to_stop = True
        if self._behaviours.of(member.group).exits is Exit.WHEN_TOLD:
            self._members.touch(member)
            return False
        self.end(member, at=now, exit_code=_SIGKILL_CODE)
        return True

    def lose(self, member: SimulatedMember, *, now: datetime) -> None:
        """It is gone without an exit code."""
        member.is_lost = True
        self.end(member, at=now, exit_code=0)

    def end(self, member: SimulatedMember, *, at: datetime, exit_code: int) -> None:
        member.ended_at, member.exit_code = at, exit_code
        self._members.touch(member)
        self._members.stand_up(member)
        if self._keeps_records:
            self.records.add_gone(at, member, was_stopped=member.was_told_to_stop)


def _code_at(member: SimulatedMember, at: datetime) -> int:
    """Of what ended by the clock: because its grace was over, because it was told to, or by itself."""
    if member.kill_at == at:
        return _SIGKILL_CODE
    return _SIGTERM_CODE if member.stops_at == at else member.exit_code
