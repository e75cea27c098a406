"""Numbers for nodes, by which those that lie together follow each other, also when nodes come and go."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

#: Sorts nodes: see `topology.path_of`.
Path = tuple[int, tuple[str, ...], int]

#: Between two neighbours there is room for so many halvings.
_GAP = 1 << 24


class NodeOrder:
    """Only which of two numbers is lower says anything: it is as it would be if all were numbered anew."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = sorted(paths)
        self._ranks = {path: number * _GAP for number, path in enumerate(self._paths)}

    def rank(self, path: Path) -> int:
        return self._ranks[path]

    def add(self, path: Path) -> bool:
        """False, and nothing done, if there is no number left where it belongs."""
        at = bisect_left(self._paths, path)
        below = self._ranks[self._paths[at - 1]] if at else None
        above = self._ranks[self._paths[at]] if at < len(self._paths) else None
        if below is None:
            rank = 0 if above is None else above - _GAP
        else:
            rank = below + _GAP if above is None else (below + above) // 2
        if rank == below:
            return False
        insort(self._paths, path)
        self._ranks[path] = rank
        return True

    def remove(self, path: Path) -> None:
        del self._paths[bisect_left(self._paths, path)]
        del self._ranks[path]
