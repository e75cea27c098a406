"""In which order the processes' requests arrive, and how much that order matters."""

from __future__ import annotations

import random
from collections.abc import Sequence

from examples.demo.per_process import PerProcessAllocator, Process
from examples.demo.submitted import GANGS, GPUS, RANKS, TASK_GROUP, TASKS


def interleaved() -> list[Process]:
    """Both gangs start their ranks at the same time, one by one; the tasks come in between."""
    ranks = [Process(gang, rank) for rank in range(RANKS) for gang in GANGS]
    tasks = [Process(TASK_GROUP, rank) for rank in range(TASKS)]
    return [*ranks[:RANKS], *tasks, *ranks[RANKS:]]


def count_stuck(orders: int, *, seed: int) -> int:
    """Of so many random orders of the same requests: in how many no gang ever gets all its GPUs."""
    source = random.Random(seed)
    processes = interleaved()
    return sum(is_stuck(source.sample(processes, len(processes))) for _ in range(orders))


def is_stuck(order: Sequence[Process]) -> bool:
    """Hand out until nothing more happens. Tasks end by themselves, a gang when it is complete."""
    allocator = PerProcessAllocator(GPUS)
    for process in order:
        allocator.request(process)
    while allocator.grant():
        if any(allocator.held(gang) == RANKS for gang in GANGS):
            return False
        for holder in list(allocator.holders):
            if holder is not None and holder.job == TASK_GROUP:
                allocator.release(holder)
    return True
