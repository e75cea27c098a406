"""What happened in a simulated cluster, in order: for scenarios and benches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from workers.launchers.base import MemberKey, MemberLaunch
from workers.launchers.simulated_journal import SimulatedMember


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A member that the launcher started."""

    order: int
    at: datetime
    key: MemberKey
    group: str
    node: str
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A member that is no longer there. `was_stopped`: because the launcher was told to end it."""

    order: int
    at: datetime
    key: MemberKey
    group: str
    node: str
    was_stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One member of a launch call, refused or not."""

    order: int
    at: datetime
    pool: str
    launch: MemberLaunch


@dataclass(slots=True)
class Records:
    """Everything in the order in which it happened. A mark is the number of the next thing."""

    starts: list[Start] = field(default_factory=list)
    gone: list[Gone] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    double_booked: list[tuple[MemberKey, MemberKey]] = field(default_factory=list)
    _next: int = 0

    def mark(self) -> int:
        """For `since`: what comes from now on has this number or a higher one."""
        return self._next

    def add_sent(self, at: datetime, pool: str, *, launch: MemberLaunch) -> None:
        self.sent.append(Sent(order=self._take(), at=at, pool=pool, launch=launch))

    def add_start(self, at: datetime, member: SimulatedMember) -> None:
        self.starts.append(
            Start(
                order=self._take(),
                at=at,
                key=MemberKey(*member.key),
                group=member.group,
                node=member.node,
                devices=member.devices,
            )
        )

    def add_gone(self, at: datetime, member: SimulatedMember, *, was_stopped: bool) -> None:
        self.gone.append(
            Gone(
                order=self._take(),
                at=at,
                key=MemberKey(*member.key),
                group=member.group,
                node=member.node,
                was_stopped=was_stopped,
            )
        )

    def launched_members(self, group: str | None = None, *, since: int = 0) -> int:
        return _count(self.starts, group, since=since)

    def stopped_members(self, group: str | None = None, *, since: int = 0) -> int:
        return _count([one for one in self.gone if one.was_stopped], group, since=since)

    def peak_live_gpus(self, node: str, *, since: int = 0) -> int:
        """The most GPUs that live members had on the node at any moment from the mark on."""
        gpus = {one.key: len(one.devices) for one in self.starts if one.node == node}
        changes = [(one.order, gpus[one.key]) for one in self.starts if one.node == node]
        changes += [(one.order, -gpus[one.key]) for one in self.gone if one.node == node]
        live, peak = 0, 0
        for order, change in sorted(changes):
            if order >= since:
                peak = max(peak, live)
            live += change
            if order >= since:
                peak = max(peak, live)
        return max(peak, live)

    def _take(self) -> int:
        self._next += 1
        return self._next - 1


def _count(records: Iterable[Start] | Iterable[Gone], group: str | None, *, since: int) -> int:
    return sum(1 for one in records if group in (None, one.group) and one.order >= since)
