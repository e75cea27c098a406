"""What the stack itself has to say, one JSON object a line, beside the logs of its processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from service.clock import Clock, SystemClock
from workers.embedded.log_file import bound_log


class Journal:
    """Appends to a file in a folder that its owner alone can enter.

    Where the file cannot be written, on a full disk, standard error has the line: what is done must not
    depend on whether it can be told.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()

    def write(self, event: str, *, level: str = "info", **fields: object) -> None:
        line = {"timestamp": self._clock.now().isoformat(), "level": level, "event": event, **fields}
        text = json.dumps(line, default=str) + "\n"
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            bound_log(self._path)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            sys.stderr.write(f"{self._path} cannot be written ({error}): {text}")
