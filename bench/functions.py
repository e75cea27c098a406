"""In which functions of one process the time goes: their own time, without those that they call."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.results import Figure

_ROOT = Path(__file__).parent.parent
_SHOWN = 8


class Functions:
    """Adds up what runs within `watched`. Watching makes calls dearer, so only shares say something."""

    def __init__(self) -> None:
        self._profile = cProfile.Profile()

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._profile.enable()
        try:
            yield
        finally:
            self._profile.disable()

    def parts(self, kind: str, *, shown: int = _SHOWN) -> list[Figure]:
        """The functions with the largest shares, in their order; none if nothing was watched."""
        if not self._profile.getstats():
            return []
        stats = pstats.Stats(self._profile).stats  # type: ignore[attr-defined]
        whole = sum(own for _, _, own, _, _ in stats.values()) or 1.0
        largest = sorted(stats.items(), key=lambda entry: -entry[1][2])[:shown]
        return [
            Figure(name=f"{kind}, {_name(*function)}", value=round(100 * own / whole, 1), unit="%")
            for function, (_, _, own, _, _) in largest
        ]


def _name(path: str, _line: int, function: str) -> str:
    """As people look for it; what waits for a store's answer is named for what it is."""
    if function == "wait" and path.endswith("psycopg/connection.py"):
        return "waiting for PostgreSQL"
    if "recv_into" in function:
        return "waiting for Redis"
    file = Path(path)
    if path.startswith(("~", "<")):
        return function.strip("<>")
    is_ours = file.is_relative_to(_ROOT) and ".venv" not in file.parts
    return f"{file.relative_to(_ROOT) if is_ours else file.name} {function}"
