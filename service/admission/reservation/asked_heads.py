"""Which blocked heads are asked for, also those that are known to have no place: a claim may be made of them,
or others may give way."""

from __future__ import annotations

from collections.abc import Collection

from service.admission.nodes.query import NO_MODEL
from service.admission.order.openings import Openings
from service.admission.reservation.books import Books
from service.admission.reservation.giving_way import GivingWay
from service.admission.reservation.head_claims import HeadClaims
from service.admission.reservation.undated import Undated
from service.admission.resident import World
from service.admission.waiting.backlog import ClassId
from service.admission.waiting.front import Onlooker
from service.admission.waiting.ranks import priority_of
from service.admission.world import PendingUnit


class Onlookers:
    """All who want to see heads that find no place beside what is kept."""

    def __init__(self, *those: Onlooker) -> None:
        self._those = those

    def wants_any_of(self, queue_id: int) -> bool:
        for each in self._those:  # noqa: SIM110 (asked for every queue: a generator costs more)
            if each.wants_any_of(queue_id):
                return True
        return False

    def wanted_among(self, queue_ids: Collection[int]) -> set[int]:
        return set[int]().union(*(each.wanted_among(queue_ids) for each in self._those))

    def wants(self, class_id: ClassId) -> bool:
        return any(each.wants(class_id) for each in self._those)

    @property
    def changes(self) -> int:
        changes = 0
        for each in self._those:
            changes += each.changes
        return changes


class AskedHeads:
    """An onlooker of one cycle. `has_dates`: whether heads get dated claims at all."""

    def __init__(
        self,
        world: World,
        *,
        has_dates: bool,
        openings: Openings,
        books: Books,
        heads: HeadClaims,
        undated: Undated,
        giving_way: GivingWay,
    ) -> None:
        self._world = world
        self._has_dates = has_dates
        self._openings = openings
        self._fitter = books.fitter
        self._claims = books.claims
        self._kept = books.kept
        self._heads = heads
        self._undated = undated
        self._giving_way = giving_way
        self._flavors: dict[int, frozenset[str]] = {}
        #: By queue, whether its best row may go before a claim, and how often claims had changed then.
        self._overtaking: dict[int, tuple[int, bool]] = {}

    def wants_any_of(self, queue_id: int) -> bool:
        """Whether a blocked head of the queue may get a claim, also one that is known to have no place."""
        return (
            self._may_date_any_of(queue_id)
            or self._may_overtake_any(queue_id)
            or self._giving_way.may_be_for_any_of(queue_id)
        )

    def wanted_among(self, queue_ids: Collection[int]) -> set[int]:
        """The same for many queues at once: of most of them nobody gets a date."""
        wanted = self._giving_way.may_be_among(queue_ids)
        wanted.update(each for each in self._openings.open_among(queue_ids) if self._may_date_any_of(each))
        if self._claims.by_unit:
            wanted.update(each for each in queue_ids if self._may_overtake_any(each))
        return wanted

    def wants(self, class_id: ClassId) -> bool:
        row = self._first_row(class_id)
        return (
            self._wants_date(class_id)
            or self._may_overtake(class_id, row)
            or self._giving_way.may_be_for(row)
        )

    @property
    def changes(self) -> int:
        return self._claims.changes + len(self._undated.found) + self._giving_way.changes

    def _may_overtake_any(self, queue_id: int) -> bool:
        if not self._claims.by_unit:
            return False
        known = self._overtaking.get(queue_id)
        if known is None or known[0] != self._claims.changes:
            may = self._find_any_to_overtake(queue_id)
            known = self._overtaking[queue_id] = self._claims.changes, may
        return known[1]

    def _find_any_to_overtake(self, queue_id: int) -> bool:
        if not self._has_dates or not self._claims.by_unit:
            return False
        line = self._world.backlog.lines.get(queue_id)
        if line is None:
            return False
        if queue_id not in self._world.quota.queues:
            return False
        best = priority_of(line.keys[0][0])
        claimants = (self._world.pending[claim.unit_id] for claim in self._heads.near(queue_id))
        return any(each.queue_id != queue_id or best > each.priority for each in claimants)

    def _may_overtake(self, class_id: ClassId, row: PendingUnit) -> bool:
        if class_id in self._undated.found or not self._may_overtake_any(class_id[0]):
            return False
        return self._claims.find(row.id) is None and bool(self._heads.behind(row))

    def _may_date_any_of(self, queue_id: int) -> bool:
        """Whether any flavor that its classes could take has a slot."""
        is_known = queue_id in self._world.quota.queues
        if not self._has_dates or not is_known or not self._openings.has_quota(queue_id):
            return False
        root = self._heads.root(queue_id)
        return any(self._heads.is_open((*root, flavor)) for flavor in self._flavors_of(queue_id))

    def _flavors_of(self, queue_id: int) -> frozenset[str]:
        if queue_id not in self._flavors:
            backlog, memory = self._world.backlog, self._world.memory
            revision, known = backlog.class_revisions.get(queue_id, 0), memory.flavors.get(queue_id)
            if known is None or known[0] != revision:
                queries = (self._fitter.query(shape_id) for shape_id in backlog.shapes_in.get(queue_id, ()))
                flavors = frozenset(flavor for query in queries for flavor in query.models or (NO_MODEL,))
                known = memory.flavors[queue_id] = revision, flavors
            self._flavors[queue_id] = known[1]
        return self._flavors[queue_id]

    def _wants_date(self, class_id: ClassId) -> bool:
        queue_id, shape_id = class_id
        if not self._has_dates or class_id in self._undated.found:
            return False
        query = self._fitter.query(shape_id)
        if not self._heads.has_slot(queue_id, query) or not self._fitter.quota.has_room(queue_id, query):
            return False
        return not self._undated.is_known(class_id) and not self._kept.stops_class(class_id)

    def _first_row(self, class_id: ClassId) -> PendingUnit:
        return self._world.pending[self._world.backlog.classes[class_id][0][4]]
