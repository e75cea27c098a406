"""What the stack itself has to say, one JSON object a line, beside the logs of its processes."""

from __future__ import annotations

import json
from pathlib import Path

from service.clock import Clock, SystemClock


class Journal:
    """Appends to a file in a folder that its owner alone can enter."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()

    def write(self, event: str, *, level: str = "info", **fields: object) -> None:
        line = {"timestamp": self._clock.now().isoformat(), "level": level, "event": event, **fields}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")
