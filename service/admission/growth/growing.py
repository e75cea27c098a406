"""What readers see of groups that run and wait for more members."""

from __future__ import annotations

from dataclasses import replace

from service.admission.growth.grower import Growth
from service.admission.packed_order import PackedOrder
from service.admission.plan import QueueVerdict
from service.admission.preemption.delayed import Shown
from service.admission.resident import World


def with_growing(world: World, growth: Growth, *, shown: Shown) -> Shown:
    """The verdicts of a cycle, with the reasons of these groups behind those of what waits."""
    if not growth.blocked:
        return shown
    queues, numbers = shown
    found = dict(queues)
    for unit_id, blockers in sorted(growth.blocked.items()):
        unit = world.running[unit_id]
        queue = found.get(unit.queue_id) or QueueVerdict(
            queue_id=unit.queue_id, order=PackedOrder(), verdicts=()
        )
        found[unit.queue_id] = replace(
            queue,
            verdicts=(*queue.verdicts, blockers),
            growing=(*queue.growing, (unit.group_id, len(queue.verdicts))),
        )
    return found, {**numbers, **growth.numbers}
