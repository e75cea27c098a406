"""The order of what waits in a queue, as readers see it: the order in which the next cycle
considers it, each row with the verdict of its class."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from datetime import datetime
from operator import is_

from service.admission.backlog import Key
from service.admission.eligibility import is_eligible, is_open
from service.admission.memory import QueueMemo, Verdict
from service.admission.plan import Blocker, QueueVerdict, Waiting
from service.admission.resident import World
from service.domain.reasons import Code


class QueueView:
    """Queue verdicts of one cycle. A queue from which nothing was admitted, and whose rows and
    verdicts are those of the last cycle, keeps the very object it had."""

    def __init__(
        self, world: World, now: datetime, *, finished: Collection[int], admitted: Collection[int]
    ) -> None:
        self._world = world
        self._now = now
        self._finished = finished
        self._admitted = admitted

    def verdict(self, queue_id: int, by_shape: Mapping[int, Verdict], holding: Key | None) -> QueueVerdict:
        """`by_shape`: the verdict of each class; `holding`: the blocked head of a strict queue."""
        turn = self._turn(queue_id, holding)
        verdicts = tuple(by_shape.values())
        revision = self._world.backlog.revisions.get(queue_id, 0)
        known = self._world.memory.queues.get(queue_id)
        if known is not None and self._is_good(
            known, queue_id, revision=revision, verdicts=verdicts, turn=turn
        ):
            return known.value
        value, good_until = self._build(queue_id, by_shape, turn=turn, holding=holding)
        if queue_id in self._admitted:
            # What was admitted still waits, for the World, until it is committed.
            self._world.memory.queues.pop(queue_id, None)
        else:
            self._world.memory.queues[queue_id] = QueueMemo(
                revision=revision, verdicts=verdicts, turn=turn, good_until=good_until, value=value
            )
        return value

    def _is_good(
        self, known: QueueMemo, queue_id: int, *, revision: int, verdicts: tuple[Verdict, ...], turn: Verdict
    ) -> bool:
        return (
            queue_id not in self._admitted
            and known.revision == revision
            and (known.good_until is None or self._now < known.good_until)
            and known.turn == turn
            and len(known.verdicts) == len(verdicts)
            and all(map(is_, known.verdicts, verdicts))
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
        """The verdict, and until when it is good: the next end of a backoff in the queue."""
        keys = self._world.backlog.queues.get(queue_id, [])
        if queue_id in self._admitted:
            keys = [key for key in keys if key[4] not in self._finished]
        verdicts = list(by_shape.values())
        ahead = {shape_id: index for index, shape_id in enumerate(by_shape)}
        split = len(keys)
        order: list[Waiting] = []
        if holding is not None:
            split = bisect_right(keys, holding)
            behind = {shape_id: index + len(verdicts) for shape_id, index in ahead.items()}
            verdicts.extend([(*verdict, *turn) for verdict in verdicts])
            order = self._entries(queue_id, keys[split:], ahead=ahead, indexes=behind)
        order = self._entries(queue_id, keys[:split], ahead=ahead, indexes=ahead) + order
        ends = [until for key in keys if not key[6] and (until := self._backoff_end(key)) is not None]
        value = QueueVerdict(queue_id=queue_id, order=tuple(order), verdicts=tuple(verdicts))
        return value, min(ends, default=None)

    def _entries(
        self, queue_id: int, keys: list[Key], *, ahead: Mapping[int, int], indexes: Mapping[int, int]
    ) -> list[Waiting]:
        """`indexes`: verdict by shape; `ahead`: for rows that are not eligible and have no turn."""
        if not is_open(self._world.configuration.queues.get(queue_id)):
            return [_entry(key, ahead[key[5]], is_eligible=False) for key in keys]
        return [
            Waiting(group_id=group_id, unit_id=unit_id, verdict=indexes[shape_id], is_eligible=True)
            if is_plain or is_eligible(self._world.pending[unit_id], self._now)
            else Waiting(group_id=group_id, unit_id=unit_id, verdict=ahead[shape_id], is_eligible=False)
            for _, _, group_id, _, unit_id, shape_id, is_plain in keys
        ]

    def _backoff_end(self, key: Key) -> datetime | None:
        until = self._world.pending[key[4]].backoff_until
        return until if until is not None and until > self._now else None


def _entry(key: Key, verdict: int, *, is_eligible: bool) -> Waiting:
    return Waiting(group_id=key[2], unit_id=key[4], verdict=verdict, is_eligible=is_eligible)
