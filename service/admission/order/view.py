"""The order of what waits in a queue, as readers see it: the order in which the next cycle
considers it, each row with the verdict of its class."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Mapping
from datetime import datetime

from service.admission.packed_order import PackedOrder
from service.admission.plan import Blocker, QueueVerdict
from service.admission.resident import World
from service.admission.state.memory import QueueMemo, Verdict
from service.admission.waiting.eligibility import is_eligible, is_open, waits_until
from service.admission.waiting.line import Key, Line
from service.domain.reasons import Code

_NOBODY = Line()


class QueueView:
    """Queue verdicts of one cycle. A queue from which nothing was admitted, and whose rows and
    verdicts are those that the last cycle showed, keeps the very object it had."""

    def __init__(
        self, world: World, now: datetime, *, finished: Collection[int], admitted: Collection[int]
    ) -> None:
        self._world = world
        self._now = now
        #: By queue, the rows that are not listed any more.
        self._finished: dict[int, list[Key]] = {}
        for unit_id in finished:
            queue_id, key = world.pending[unit_id].queue_id, world.backlog.key(unit_id)
            self._finished.setdefault(queue_id, []).append(key)
        self._admitted = admitted

    def kept(self, queue_id: int, by_shape: Mapping[int, Verdict]) -> QueueVerdict | None:
        """The object of the last cycle, where that is told at once: for a queue from which nothing was
        admitted, where nobody waits for the clock, or for a turn."""
        known = self._world.memory.queues.get(queue_id)
        if (
            known is not None
            and known.by_shape is by_shape
            and known.revision == self._world.backlog.revisions.get(queue_id, 0)
            and known.good_until is None
            and not known.turn
            and queue_id not in self._admitted
            and self._has_come(known, queue_id)
        ):
            return known.value
        return None

    def _has_come(self, known: QueueMemo, queue_id: int) -> bool:
        """Whether those wait who were to be left."""
        line = self._world.backlog.lines.get(queue_id, _NOBODY)
        return not known.is_ahead or line.unit_ids.tobytes() == known.value.order.unit_ids

    def verdict(self, queue_id: int, by_shape: Mapping[int, Verdict], holding: Key | None) -> QueueVerdict:
        """`by_shape`: the verdict of each class; `holding`: the blocked head of a strict queue."""
        turn = self._turn(queue_id, holding)
        revision = self._world.backlog.revisions.get(queue_id, 0)
        known = self._world.memory.queues.get(queue_id)
        if known is not None and self._is_good(
            known, queue_id, revision=revision, by_shape=by_shape, turn=turn
        ):
            return known.value
        value, good_until = self._build(queue_id, by_shape, turn=turn, holding=holding)
        # What was admitted still waits, for the World, until it is committed.
        is_ahead = queue_id in self._admitted
        self._world.memory.queues[queue_id] = QueueMemo(
            revision=revision + is_ahead,
            by_shape=by_shape,
            turn=turn,
            good_until=good_until,
            value=value,
            is_ahead=is_ahead,
        )
        return value

    def _is_good(
        self,
        known: QueueMemo,
        queue_id: int,
        *,
        revision: int,
        by_shape: Mapping[int, Verdict],
        turn: Verdict,
    ) -> bool:
        return (
            queue_id not in self._admitted
            and known.revision == revision
            and (known.good_until is None or self._now < known.good_until)
            and known.turn == turn
            and known.by_shape is by_shape
            and not known.is_ahead
        )

    def _turn(self, queue_id: int, holding: Key | None) -> Verdict:
        if holding is None:
            return ()
        queue = self._world.configuration.queues[queue_id]
        holder = self._world.pending[holding[4]].public_id
        return (Blocker(code=Code.WAITING_FOR_TURN, scope={"queue": queue.name}, holders=(holder,)),)

    def _build(
        self, queue_id: int, by_shape: Mapping[int, Verdict], *, turn: Verdict, holding: Key | None
    ) -> tuple[QueueVerdict, datetime | None]:
        """The verdict, and until when it is good: the next instant for which a row of the queue waits."""
        line = self._world.backlog.lines.get(queue_id, _NOBODY)
        if queue_id in self._finished:
            line = line.without(self._finished[queue_id])
        verdicts, eligible = tuple(by_shape.values()), self._eligible(queue_id, line)
        numbers = {shape_id: number for number, shape_id in enumerate(by_shape)}
        verdict_of = array("q", map(numbers.__getitem__, line.shape_ids))
        if holding is not None:
            # Rows behind the head have its turn to wait for besides, if they are eligible.
            for at in range(bisect_right(line.keys, holding), len(line)):
                verdict_of[at] += len(verdicts) * eligible[at]
            verdicts += tuple((*verdict, *turn) for verdict in verdicts)
        order = PackedOrder(
            group_ids=line.group_ids.tobytes(),
            unit_ids=line.unit_ids.tobytes(),
            verdict_of=verdict_of.tobytes(),
            is_eligible=eligible,
        )
        return QueueVerdict(queue_id=queue_id, order=order, verdicts=verdicts), self._next_wait_end(line)

    def _eligible(self, queue_id: int, line: Line) -> bytes:
        """One byte for each row: 1 if it takes part in the cycle."""
        if not is_open(self._world.configuration.queues.get(queue_id)):
            return bytes(len(line))
        if not line.not_plain:
            return b"\x01" * len(line)
        return bytes(key[6] or is_eligible(self._world.pending[key[4]], self._now) for key in line.keys)

    def _next_wait_end(self, line: Line) -> datetime | None:
        if not line.not_plain:
            return None
        ends = (waits_until(self._world.pending[key[4]]) for key in line.keys if not key[6])
        return min((until for until in ends if until is not None and until > self._now), default=None)
