"""Groups whose members write down that they were there, and what their notes must look like."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.faults.members import Members, Processes, SimulatedMembers
from workers.launchers.base import MemberKey
from workers.launchers.local.layout import parse_mark

Body = dict[str, object]

_BEGIN = 'echo "begin $MUSTER_MEMBER" >> "$0"'
_END = 'echo "end $MUSTER_MEMBER" >> "$0"'


@dataclass(frozen=True, slots=True)
class Notes:
    """How often each member of each generation began, and came to its end."""

    begun: Counter[MemberKey] = field(default_factory=Counter)
    ended: Counter[MemberKey] = field(default_factory=Counter)


class Journal:
    """A file to which each member appends a line when it begins and when it ends.

    `label` marks the groups, so that those of one test are found among all others.
    """

    has_notes: ClassVar = True

    def __init__(self, folder: Path, *, label: str) -> None:
        self.label = label
        self._file = folder / "journal"
        self._file.touch()
        self._gate = folder / "go"

    def gang(self, members: int, *, seconds: float = 0.2, name: str = "gang") -> Body:
        return self._body(name, members, f"sleep {seconds}")

    def independent(self, members: int, *, seconds: float = 0.2, name: str = "tasks") -> Body:
        return self._body(name, members, f"sleep {seconds}") | {"scheduling": "independent"}

    def long_gang(self, members: int, *, name: str = "across") -> Body:
        """One that runs until `open`."""
        return self._body(name, members, 'while [ ! -e "$1" ]; do sleep 0.05; done')

    def doing(self, work: str, *, members: int = 1, name: str = "doing") -> Body:
        """A gang whose members run the shell command `work` between their two notes. In it `$1` is the
        file that `open` makes."""
        return self._body(name, members, work)

    def open(self) -> None:
        self._gate.touch()

    def members_on(self, data: Path) -> Members:
        """Where what really runs is seen on the stack's `data`."""
        return Processes(data)

    def notes(self) -> Notes:
        """What has been written so far."""
        notes = Notes()
        for line in self._file.read_text().splitlines():
            word, mark = line.split()
            key = parse_mark(mark)
            assert key is not None, line
            {"begin": notes.begun, "end": notes.ended}[word][key] += 1
        return notes

    def _body(self, name: str, members: int, work: str) -> Body:
        script = f"{_BEGIN}; {work}; {_END}"
        return {
            "name": name,
            "members": members,
            "gpus": 1,
            "command": ["sh", "-c", script, str(self._file), str(self._gate)],
            "recovery": {"backoff": "1s"},
            "labels": {"run": self.label},
        }


class SimulatedJournal(Journal):
    """Groups whose members live on a clock, and take half a second to stop. They write nothing."""

    has_notes: ClassVar = False

    def gang(self, members: int, *, seconds: float = 0.2, name: str = "gang") -> Body:
        return self._simulated(name, members, "--seconds", str(seconds))

    def long_gang(self, members: int, *, name: str = "across") -> Body:
        """One that runs until it is told to stop."""
        return self._simulated(name, members)

    def members_on(self, data: Path) -> Members:
        return SimulatedMembers(data)

    def _simulated(self, name: str, members: int, *arguments: str) -> Body:
        command = ["simulate", "--stop-seconds", "0.5", *arguments]
        return self._body(name, members, "") | {"command": command}
