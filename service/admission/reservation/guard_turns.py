"""For which of those whose guard has run out places are sought in one cycle, when they are many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from service.admission.claims.book import ClaimBook
from service.admission.fit import Fitter
from service.admission.resident import World
from service.admission.state.memory import GuardSearch
from service.admission.world import PendingUnit
from service.domain.claim import Claim

#: So many searches are made in one cycle; the first half of them for whoever comes first.
_SEARCHES = 64
_IN_ORDER = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: The golden ratio's part of a circle of 2 ** 64: its multiples lie evenly on it.
_CIRCLE = 1 << 64
_GOLDEN = 0x9E3779B97F4A7C15


class GuardTurns:
    """Equals in shape are answered by one search. Of those for whom there is no search left, another part is
    asked at another instant: who is never placed keeps nobody behind it from being asked."""

    def __init__(self, world: World, now: datetime, *, claims: ClaimBook, fitter: Fitter) -> None:
        self._world = world
        self._now = now
        self._claims = claims
        self._fitter = fitter
        self._searches = 0
        #: Searches that found nothing, and how often claims had changed then.
        self._failed: dict[GuardSearch, int] = {}

    def is_in_order(self, waiting: int) -> bool:
        """Whether it is the next one's turn, of so many that wait: all are asked if they are not too many."""
        return waiting <= _SEARCHES or self._searches < _IN_ORDER

    def some_of(self, rows: Sequence[PendingUnit]) -> Iterator[PendingUnit]:
        """Whose turn it is of the others, till all searches are made."""
        angle = (self._now - _EPOCH) // _MICROSECOND * _GOLDEN % _CIRCLE
        first = angle * len(rows) // _CIRCLE
        for row in (*rows[first:], *rows[:first]):
            if self._searches >= _SEARCHES:
                return
            yield row

    def is_vain(self, row: PendingUnit, behind: Sequence[Claim]) -> bool:
        """Whether nothing was found for the row, or an equal of it, beside all claims but those `behind` it.
        Counts a search, if it was not one of this cycle."""
        search = _search_of(row, behind)
        if self._failed.get(search) == self._claims.changes:
            return True
        self._searches += 1
        revision, known = self._world.memory.vain
        if self._claims.changes or revision != self._world.claims_revision or search not in known:
            return False
        self._failed[search] = self._claims.changes
        return True

    def note_vain(self, row: PendingUnit, behind: Sequence[Claim]) -> None:
        """Whoever ends makes it no other: all that is held was given back, but to claims. Nothing is noted
        where quota says which places it may take."""
        caps, query = self._fitter.caps_of(row) or {}, self._fitter.query(row.shape_id)
        if any(cap < query.total.gpus for cap in caps.values()):
            return
        search, world = _search_of(row, behind), self._world
        self._failed[search] = self._claims.changes
        if not self._claims.changes and not world.capacity.is_in_use:
            if world.memory.vain[0] != world.claims_revision:
                world.memory.vain = world.claims_revision, set()
            world.memory.vain[1].add(search)


def _search_of(row: PendingUnit, behind: Sequence[Claim]) -> GuardSearch:
    return GuardSearch(row.shape_id, row.avoided_nodes, tuple(claim.unit_id for claim in behind))
