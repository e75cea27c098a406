"""Groups that wait for others to end, as the transaction that ends a group would tell them."""

from __future__ import annotations

from service.domain.dependency import ANSWER, When
from service.domain.status import Status
from simulation.job import Job


class Dependents:
    """Whom each group waits for. An answer is given once, when the group has ended as a whole."""

    def __init__(self) -> None:
        self._open: dict[int, dict[int, When]] = {}
        self._ended: dict[int, Status] = {}

    def submit(self, job: Job) -> int | None:
        """How many groups it waits for; None if that can never come true."""
        waits = {group_id: when for group_id, when in job.after if group_id not in self._ended}
        if not all(_is_met(when, self._ended[each]) for each, when in job.after if each in self._ended):
            return None
        self._open[job.group_id] = waits
        return len(waits)

    def open_of(self, group_id: int) -> int:
        return len(self._open.get(group_id, ()))

    def end(self, group_id: int, status: Status) -> tuple[set[int], set[int]]:
        """Groups that wait for one less, and those that can never start."""
        self._ended[group_id] = status
        self._open.pop(group_id, None)
        told = {each: waits[group_id] for each, waits in self._open.items() if group_id in waits}
        met = {each for each, when in told.items() if _is_met(when, status)}
        for each in met:
            del self._open[each][group_id]
        return met, told.keys() - met


def _is_met(when: When, status: Status) -> bool:
    return when is When.ANY or ANSWER[when] is status
