"""What readers see of claimants to whom others would give way later."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import replace

from service.admission.packed_order import unpacked
from service.admission.plan import Blocker, QueueVerdict
from service.admission.preemption.delays import Delay, Delays
from service.admission.resident import World
from service.admission.state.memory import DelayedMemo
from service.domain.reasons import rank

#: Verdicts by queue, and the numbers that they share.
Shown = tuple[Mapping[int, QueueVerdict], Mapping[str, int]]


def with_delays(world: World, delays: Delays, *, shown: Shown) -> Shown:
    """The verdicts of a cycle; rows that were asked, and those of their class that stand like them, are told
    their delay beside what their class is told."""
    if not delays.found:
        return shown
    queues, numbers = shown
    by_queue: dict[int, list[Delay]] = {}
    for row_id in sorted(delays.found):
        delay = delays.found[row_id]
        by_queue.setdefault(delay.row.queue_id, []).append(delay)
    found = dict(queues)
    for queue_id, of_queue in by_queue.items():
        found[queue_id] = _known_or_told(world, found[queue_id], tuple(of_queue))
    return found, {**numbers, **{delay.key: delay.gives for delay in delays.found.values()}}


def _known_or_told(world: World, queue: QueueVerdict, delays: tuple[Delay, ...]) -> QueueVerdict:
    """As in the last cycle, if the queue is shown as then, and with it all of its rows."""
    known = world.memory.delayed.get(queue.queue_id)
    if known is None or known.before is not queue or known.delays != delays:
        known = DelayedMemo(queue, delays, _told(world, queue, delays))
        world.memory.delayed[queue.queue_id] = known
    return known.value


def _told(world: World, queue: QueueVerdict, delays: Iterable[Delay]) -> QueueVerdict:
    order = queue.order
    at = {unit_id: position for position, unit_id in enumerate(unpacked(order.unit_ids))}
    verdict_of, verdicts = array("q", unpacked(order.verdict_of)), list(queue.verdicts)
    told: set[int] = set()
    for delay in delays:
        blocker, known = delay.blocker(), dict[int, int]()
        for key in world.backlog.classes[queue.queue_id, delay.row.shape_id]:
            position = at.get(key[4])
            if position is None or position in told or not order.is_eligible[position]:
                continue
            if not delay.is_told(world.pending[key[4]]):
                continue
            told.add(position)
            before = verdict_of[position]
            if before not in known:
                known[before] = len(verdicts)
                verdicts.append(_ranked((*verdicts[before], blocker)))
            verdict_of[position] = known[before]
    return replace(queue, order=replace(order, verdict_of=verdict_of.tobytes()), verdicts=tuple(verdicts))


def _ranked(blockers: tuple[Blocker, ...]) -> tuple[Blocker, ...]:
    return tuple(sorted(blockers, key=lambda blocker: rank(blocker.code)))
