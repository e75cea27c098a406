"""A stack whose processes write down their writes and the points that they reach, and the gaps in that."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_TRACING = Path(__file__).parent / "tracing"


@dataclass(frozen=True, slots=True)
class Step:
    """A write, or (`kind` point) a point that was reached. `frames`: functions of ours, innermost first."""

    part: str
    kind: str
    what: str
    frames: tuple[str, ...]

    @property
    def where(self) -> str:
        return self.frames[0] if self.frames else "?"

    def __str__(self) -> str:
        return f"{self.kind} {self.what.rpartition('/')[2]} in {' < '.join(self.frames)}"


@dataclass(frozen=True, slots=True)
class Gap:
    """Two writes of one thread without a point between them."""

    first: Step
    second: Step

    def __str__(self) -> str:
        return f"{self.first.part}: {self.first}\n    then {self.second}"


class Tracing:
    """`environment` is what `muster up` is to be given. `data`: its data folder. `no_step`: functions
    whose writes are left out. `seen`: which process wrote to what."""

    def __init__(self, folder: Path, data: Path, *, no_step: Collection[str]) -> None:
        self.gaps: list[Gap] = []
        self.seen: set[tuple[str, str]] = set()
        self.environment = _environment(folder, data)
        self._path = folder / "trace"
        self._read_bytes = 0
        self._no_step = no_step
        self._points: set[str] = set()
        self._last: dict[tuple[int, int], Step | None] = {}

    def look(self) -> set[str]:
        """Read what was written since the last look; the points that were reached since `begin`."""
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            lines = [line for line in file if line.endswith(b"\n")]
        self._read_bytes += sum(map(len, lines))
        for line in lines:
            fields = json.loads(line)
            step = Step(fields["part"], fields["kind"], fields["what"], tuple(fields["frames"]))
            self._take((fields["pid"], fields["thread"]), step)
        return self._points

    def begin(self) -> None:
        """Count the points that are reached from now on."""
        self.look()
        self._points = set()

    def _take(self, thread: tuple[int, int], step: Step) -> None:
        if step.kind == "point":
            self._points.add(step.what)
            self._last[thread] = None
        elif step.where not in self._no_step:
            self.seen.add((step.part, step.kind))
            last = self._last.get(thread)
            if last is not None:
                self.gaps.append(Gap(last, step))
            self._last[thread] = step


def _environment(folder: Path, data: Path) -> dict[str, str]:
    """The spawner gets no environment but its own, so the dispatcher starts it by a script that adds ours."""
    variables = {"TRACE_TO": str(folder / "trace"), "TRACE_FILES": str(data / "launcher")}
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    path = f'PYTHONPATH={shlex.quote(str(_TRACING))}:"$PYTHONPATH"'
    python = folder / "python"
    python.write_text(f'#!/bin/sh\n{given} {path} exec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o700)
    return variables | {"PYTHONPATH": str(_TRACING), "TRACE_PYTHON": str(python)}
