"""Part 2: the same groups through Muster, as real processes, and what has to be true of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from examples.demo.claims import Claim
from examples.demo.screen import Frame
from examples.demo.submitted import GANGS, GPUS, RANKS, STEPS, TASK_GROUP, TASKS, bodies
from examples.demo.watching import Look, Watcher, frame_of
from service.client import Client, ClientError
from service.client.groups import Group

_LOOK_SECONDS = 0.1
#: Far above what it takes.
_END_SECONDS = 120.0
_CANCEL_SECONDS = 15.0

Show = Callable[[Frame], None]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was recorded. `logs` of each gang, by rank."""

    looks: Sequence[Look]
    groups: Mapping[str, Group]
    admissions: Mapping[str, int]
    logs: Mapping[str, Sequence[str]]
    is_audit_clean: bool
    gpus_held: int
    drift: Sequence[str] = field(default_factory=tuple)

    @property
    def handed_out(self) -> int:
        """The most GPUs that were held at the same time."""
        return max(GPUS - look.holders.count(None) for look in self.looks)

    @property
    def steps(self) -> dict[str, int]:
        return {
            gang: sum(line.startswith("step ") for line in self.logs[gang][0].splitlines()) for gang in GANGS
        }

    @property
    def progressed(self) -> int:
        return sum(steps > 0 for steps in self.steps.values())

    @property
    def tasks_done(self) -> int:
        return self.groups[TASK_GROUP].succeeded_members

    @property
    def seconds(self) -> float:
        return self.looks[-1].seconds

    def claims(self) -> list[Claim]:
        return [
            self._never_in_part(),
            self._whole_at_once(),
            self._told_why(),
            self._two_beside(),
            Claim(f"at one moment {GPUS} of {GPUS} GPUs were in use", self.handed_out == GPUS),
            self._next_after_end(),
            self._all_steps(),
            Claim(
                "in the end nothing is held, and the audit of both stores and the processes is clean",
                self.is_audit_clean and self.gpus_held == 0,
                "; ".join(self.drift),
            ),
        ]

    def _never_in_part(self) -> Claim:
        held = [
            (look.in_ledger(gang), look.groups[gang].held, RANKS) for look in self.looks for gang in GANGS
        ]
        is_true = all(amount in (0, whole) for *amounts, whole in held for amount in amounts)
        once = all(self.admissions[gang] == 1 for gang in GANGS)
        text = f"each gang held {RANKS} GPUs or none, never a part, and was admitted once"
        return Claim(text, is_true and once, f"{len(self.looks)} looks at both stores")

    def _whole_at_once(self) -> Claim:
        most = max(look.groups["A"].running for look in self.looks)
        joined = sum(f"all {RANKS} ranks joined" in log for log in self.logs["A"])
        return Claim(
            f"all {RANKS} ranks of A lived at the same time and found each other",
            most == RANKS and joined == RANKS,
            f"{most} running at once, {joined} joined",
        )

    def _told_why(self) -> Claim:
        """In every look in which A trained and B waited. The requests of one look are not made at the
        same instant, so in the first and the last one B may have been at another point than A."""
        waits = [
            look.groups["B"]
            for look in self.looks
            if look.groups["A"].running == RANKS and look.groups["B"].status == "Pending"
        ][1:-1]
        is_told = bool(waits) and all(b.position == 1 and "InsufficientGpus" in b.codes for b in waits)
        shown = f"position 1, {waits[0].codes[0]}: {waits[0].reason}" if is_told else "not always"
        return Claim("meanwhile B waited, held nothing and was told why", is_told, shown)

    def _two_beside(self) -> Claim:
        beside = [look.in_ledger(TASK_GROUP) for look in self.looks if look.in_ledger("A") == RANKS]
        spare = GPUS - RANKS
        return Claim(
            f"the tasks ran on the {spare} spare GPUs, {spare} at a time, and all {TASKS} are done",
            max(beside, default=0) == spare and self.tasks_done == TASKS,
        )

    def _next_after_end(self) -> Claim:
        ended, admitted = self.groups["A"].ended_at, self.groups["B"].admitted_at
        text = "B was admitted when A had ended"
        if ended is None or admitted is None:
            return Claim(text, is_true=False)
        gap = (admitted - ended).total_seconds()
        return Claim(text, gap >= 0, f"{gap * 1000:.0f} ms later")

    def _all_steps(self) -> Claim:
        done = f"done: {STEPS} steps with {RANKS} ranks"
        is_true = all(
            self.groups[gang].status == "Succeeded" and done in self.logs[gang][0] for gang in GANGS
        )
        shown = ", ".join(f"{gang} {self.groups[gang].status}" for gang in GANGS)
        return Claim(f"both gangs took all {STEPS} steps with {RANKS} ranks", is_true, shown)


def run(client: Client, folder: Path, show: Show) -> Outcome:
    """Submit everything at once, watch until all have ended. Whatever happens, nothing lives on."""
    submitted = client.submit_batch(bodies(folder))
    ids = {group.name: group.id for group in submitted}
    try:
        looks = _watch(Watcher(client, ids), show)
        return _gather(client, ids, looks)
    finally:
        _end(client, list(ids.values()))


def _watch(watcher: Watcher, show: Show) -> list[Look]:
    looks: list[Look] = []
    while not looks or not (looks[-1].is_over or looks[-1].seconds > _END_SECONDS):
        look = watcher.look()
        looks.append(look)
        show(frame_of(look))
        time.sleep(_LOOK_SECONDS)
    return looks


def _gather(client: Client, ids: Mapping[str, str], looks: Sequence[Look]) -> Outcome:
    audit = client.audit()
    return Outcome(
        looks=looks,
        groups={name: client.get(group_id) for name, group_id in ids.items()},
        admissions={
            name: sum(event.kind == "Admitted" for event in client.events(group_id).list())
            for name, group_id in ids.items()
        },
        logs={gang: [_log(client, ids[gang], rank) for rank in range(RANKS)] for gang in GANGS},
        is_audit_clean=audit.is_clean,
        gpus_held=audit.gpus_held,
        drift=[finding.message for finding in audit.drift],
    )


def _log(client: Client, group_id: str, rank: int) -> str:
    return b"".join(client.members(group_id).logs(rank)).decode(errors="replace")


def _end(client: Client, ids: Sequence[str]) -> None:
    """Cancel what has not ended, and wait until it is gone."""
    deadline = time.monotonic() + _CANCEL_SECONDS
    try:
        for group_id in ids:
            client.cancel(group_id)
        while time.monotonic() < deadline and any(client.get(each).ended_at is None for each in ids):
            time.sleep(_LOOK_SECONDS)
    except ClientError:
        return  # the stack is gone; who uses it ends what is left
