"""How GPUs are handed out when nobody knows of groups: process by process, first come, first served."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Process(NamedTuple):
    """One process that needs one GPU, and the job that it belongs to."""

    job: str
    rank: int


class PerProcessAllocator:
    """GPUs and one line of waiting processes. Each process gets a GPU as soon as it is first in line
    and one is free. That is all the policy there is: jobs are not looked at, and nobody gives back
    what he holds before he ends.
    """

    def __init__(self, gpus: int) -> None:
        self.holders: list[Process | None] = [None] * gpus
        self._line: deque[Process] = deque()

    def request(self, process: Process) -> None:
        """Join the end of the line."""
        self._line.append(process)

    def grant(self) -> list[tuple[int, Process]]:
        """Hand out what is free; the GPU and the process of each grant."""
        free = [gpu for gpu, holder in enumerate(self.holders) if holder is None]
        granted = [(gpu, self._line.popleft()) for gpu in free if self._line]
        for gpu, process in granted:
            self.holders[gpu] = process
        return granted

    def release(self, process: Process) -> None:
        """The process has ended."""
        self.holders[self.holders.index(process)] = None

    def held(self, job: str) -> int:
        """How many GPUs the processes of a job hold."""
        return sum(holder is not None and holder.job == job for holder in self.holders)

    @property
    def used(self) -> int:
        return sum(holder is not None for holder in self.holders)
