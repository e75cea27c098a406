"""The waiting rows of one queue, in their order, and the columns of what is published of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left

#: Rank by priority and by what its queue orders by (see `ranks`), submission in microseconds, group,
#: first index, unit: the one order of listing, position and admission. Then what is asked most, the unit
#: being unique: its shape, and whether it is plain: eligible at any instant.
Key = tuple[int, int, int, int, int, int, bool]

#: Beyond so many at once a sort, or a sieve, is cheaper than one change of the list after the other.
_BULK = 48


class Line:
    """`keys` are sorted; entry i of each column is of `keys[i]`. Columns are kept and not made when
    they are asked for: a cycle then costs what changed, not what waits."""

    __slots__ = ("group_ids", "keys", "not_plain", "shape_ids", "unit_ids")

    keys: list[Key]
    #: How many rows are held, or have something else to wait for besides places.
    not_plain: int

    def __init__(self, keys: list[Key] | None = None) -> None:
        """`keys` are sorted."""
        self._set([] if keys is None else keys)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: list[Key]) -> None:
        if len(keys) > _BULK:
            self._set(sorted([*self.keys, *keys]))
            return
        for key in keys:
            at = bisect_left(self.keys, key)
            self.keys.insert(at, key)
            self.group_ids.insert(at, key[2])
            self.unit_ids.insert(at, key[4])
            self.shape_ids.insert(at, key[5])
            self.not_plain += not key[6]

    def remove(self, keys: list[Key]) -> None:
        if len(keys) > _BULK:
            gone = set(keys)
            self._set([key for key in self.keys if key not in gone])
            return
        for key in keys:
            at = bisect_left(self.keys, key)
            del self.keys[at], self.group_ids[at], self.unit_ids[at], self.shape_ids[at]
            self.not_plain -= not key[6]

    def without(self, keys: list[Key]) -> Line:
        """A line of its own, without these rows."""
        rest = Line.__new__(Line)
        rest.keys, rest.not_plain = self.keys[:], self.not_plain
        rest.group_ids, rest.unit_ids, rest.shape_ids = (
            self.group_ids[:],
            self.unit_ids[:],
            self.shape_ids[:],
        )
        rest.remove(keys)
        return rest

    def _set(self, keys: list[Key]) -> None:
        self.keys = keys
        self.group_ids = array("q", [key[2] for key in keys])
        self.unit_ids = array("q", [key[4] for key in keys])
        self.shape_ids = array("q", [key[5] for key in keys])
        self.not_plain = sum([not key[6] for key in keys])
