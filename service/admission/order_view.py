"""The order of what waits in a queue, as readers see it: the order in which the next cycle
considers it, each row with the verdict of its class."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from service.admission.eligibility import is_open
from service.admission.memory import QueueMemo, Verdict
from service.admission.ordering import Head
from service.admission.plan import Blocker, QueueVerdict, Waiting
from service.admission.resident import World
from service.domain.reasons import Code


class QueueView:
    """Queue verdicts of one cycle. A queue from which nothing was admitted, and whose rows and
    verdicts are those of the last cycle, keeps the very object it had."""

    def __init__(
        self, world: World, now: datetime, finished: Collection[int], admitted: Collection[int]
    ) -> None:
        self._world = world
        self._now = now
        self._finished = finished
        self._admitted = admitted

    def verdict(self, queue_id: int, by_shape: Mapping[int, Verdict], holding: Head | None) -> QueueVerdict:
        """`by_shape`: the verdict of each class; `holding`: the blocked head of a strict queue."""
        turn = self._turn(queue_id, holding)
        verdicts = tuple(by_shape.values())
        revision = self._world.backlog.revisions.get(queue_id, 0)
        known = self._world.memory.queues.get(queue_id)
        if known is not None and self._is_good(known, queue_id, revision, verdicts, turn):
            return known.value
        value, good_until = self._build(queue_id, by_shape, turn, holding)
        if queue_id in self._admitted:
            # What was admitted still waits, for the World, until it is committed.
            self._world.memory.queues.pop(queue_id, None)
        else:
            self._world.memory.queues[queue_id] = QueueMemo(
                revision=revision, verdicts=verdicts, turn=turn, good_until=good_until, value=value
            )
        return value

    def _is_good(
        self, known: QueueMemo, queue_id: int, revision: int, verdicts: tuple[Verdict, ...], turn: Verdict
    ) -> bool:
        return (
            queue_id not in self._admitted
            and known.revision == revision
            and (known.good_until is None or self._now < known.good_until)
            and known.turn == turn
            and len(known.verdicts) == len(verdicts)
            and all(old is new for old, new in zip(known.verdicts, verdicts, strict=True))
        )

    def _turn(self, queue_id: int, holding: Head | None) -> Verdict:
        if holding is None:
            return ()
        queue = self._world.configuration.queues[queue_id]
        holder = holding.row.public_id
        return (Blocker(code=Code.WAITING_FOR_TURN, scope={"queue": queue.name}, holders=(holder,)),)

    def _build(
        self, queue_id: int, by_shape: Mapping[int, Verdict], turn: Verdict, holding: Head | None
    ) -> tuple[QueueVerdict, datetime | None]:
        is_closed = not is_open(self._world.configuration.queues.get(queue_id))
        indexes = {shape_id: index for index, shape_id in enumerate(by_shape)}
        verdicts = list(by_shape.values())
        behind: dict[int, int] = {}
        order: list[Waiting] = []
        good_until: datetime | None = None
        is_behind = False
        for row in self._world.backlog.queue_rows(queue_id):
            if row.id in self._finished:
                continue
            is_backing_off = row.backoff_until is not None and row.backoff_until > self._now
            if is_backing_off and row.backoff_until is not None:
                good_until = min(good_until or row.backoff_until, row.backoff_until)
            is_eligible = not (is_closed or row.is_held or is_backing_off)
            index = indexes[row.shape_id]
            if is_behind and is_eligible:
                if row.shape_id not in behind:
                    behind[row.shape_id] = len(verdicts)
                    verdicts.append((*verdicts[index], *turn))
                index = behind[row.shape_id]
            order.append(
                Waiting(group_id=row.group_id, unit_id=row.id, verdict=index, is_eligible=is_eligible)
            )
            is_behind = is_behind or (holding is not None and row.id == holding.row.id)
        return QueueVerdict(queue_id=queue_id, order=tuple(order), verdicts=tuple(verdicts)), good_until
