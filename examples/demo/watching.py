"""Looks at the groups through the API, again and again."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from examples.demo.screen import Frame, Row
from examples.demo.submitted import ALL, GPUS, RANKS, TASK_GROUP, TASKS
from service.client import Client

_STEP = re.compile(r"^step (\d+) of (\d+)", re.MULTILINE)
_ENDED = frozenset({"Succeeded", "Failed", "Cancelled"})


@dataclass(frozen=True, kw_only=True)
class GroupLook:
    """What the API said of one group. `held`: GPUs by PostgreSQL; `codes`: its reasons, the first first."""

    name: str
    status: str
    running: int
    succeeded: int
    held: int
    position: int | None
    codes: tuple[str, ...]
    reason: str
    last_line: str

    @property
    def has_ended(self) -> bool:
        return self.status in _ENDED


@dataclass(frozen=True, kw_only=True)
class Look:
    """One moment. `holders` names for each GPU who holds it by the ledger, which is one reading."""

    seconds: float
    groups: Mapping[str, GroupLook]
    holders: tuple[str | None, ...]

    def in_ledger(self, name: str) -> int:
        """GPUs that a group holds by the ledger."""
        return self.holders.count(name)

    @property
    def is_over(self) -> bool:
        """All have ended, and their places were given back."""
        return all(group.has_ended for group in self.groups.values()) and not any(self.holders)


class Watcher:
    """Asks for everything that the demo shows. `ids` by the groups' names."""

    def __init__(self, client: Client, ids: Mapping[str, str]) -> None:
        self._client = client
        self._ids = ids
        self._started = time.monotonic()

    def look(self) -> Look:
        groups = {name: self._look_at(name) for name in ALL}
        return Look(seconds=time.monotonic() - self._started, groups=groups, holders=self._holders())

    def _look_at(self, name: str) -> GroupLook:
        group = self._client.get(self._ids[name])
        reasons = self._client.reasons(group.id).reasons if group.is_waiting else []
        members = list(self._client.members(group.id).list(statuses=["Running"]))
        return GroupLook(
            name=name,
            status=group.status,
            running=len(members),
            succeeded=group.succeeded_members,
            held=sum(place.gpus for place in group.places),
            position=group.position,
            codes=tuple(reason.code for reason in reasons),
            reason=reasons[0].message if reasons else group.message or "",
            last_line=self._last_line(group.id) if name != TASK_GROUP and members else "",
        )

    def _last_line(self, group_id: str) -> str:
        """The last line that rank 0 wrote."""
        log = b"".join(self._client.members(group_id).logs(0, tail=1))
        return log.decode(errors="replace").strip()

    def _holders(self) -> tuple[str | None, ...]:
        holders: list[str | None] = [None] * GPUS
        for node in self._client.inventory().nodes:
            for holder in node.holders:
                for gpu in holder.gpus:
                    holders[gpu] = holder.name
        return tuple(holders)


def frame_of(look: Look) -> Frame:
    return Frame(
        clock=f"{look.seconds:.1f} s",
        holders=look.holders,
        rows=[_row(look.groups[name]) for name in ALL],
    )


def _row(group: GroupLook) -> Row:
    why = f"{group.codes[0]}: {group.reason}" if group.codes and not group.running else ""
    return Row(
        name=group.name,
        status=group.status,
        members=group.running,
        of=TASKS if group.name == TASK_GROUP else RANKS,
        gpus=group.held,
        position=group.position if not group.running else None,
        progress=_progress(group),
        why=why,
    )


def _progress(group: GroupLook) -> str:
    if group.name == TASK_GROUP:
        return f"{group.succeeded} of {TASKS} done"
    if group.status == "Succeeded" or group.last_line.startswith("done:"):
        return "all steps done"
    if step := _STEP.match(group.last_line):
        return f"step {step[1]} of {step[2]}"
    return group.last_line if group.running else ""


def first(looks: Sequence[Look], name: str, *, holding: int) -> Look | None:
    """The first look in which a group held so many GPUs."""
    return next((look for look in looks if look.in_ledger(name) == holding), None)
