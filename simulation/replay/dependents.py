"""Groups that wait for others to end, as the transaction that ends a group would tell them."""

from __future__ import annotations

from service.domain.dependency import ANSWER, When
from service.domain.status import Status
from simulation.job import Job

#: How groups ended, a byte each.
_STATUSES = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)


class Dependents:
    """Whom each group waits for. An answer is given once, when the group has ended as a whole."""

    def __init__(self) -> None:
        self._open: dict[int, dict[int, When]] = {}
        self._waiting_for: dict[int, set[int]] = {}
        self._ended = bytearray()

    def submit(self, job: Job) -> int | None:
        """How many groups it waits for; None if that can never come true."""
        if not job.after:
            return 0
        waits = {}
        for group_id, when in job.after:
            status = self._status_of(group_id)
            if status is None:
                waits[group_id] = when
            elif not _is_met(when, status):
                return None
        self._open[job.group_id] = waits
        for group_id in waits:
            self._waiting_for.setdefault(group_id, set()).add(job.group_id)
        return len(waits)

    def open_of(self, group_id: int) -> int:
        return len(self._open.get(group_id, ()))

    def end(self, group_id: int, status: Status) -> tuple[set[int], set[int]]:
        """Groups that wait for one less, and those that can never start."""
        self._note(group_id, status)
        for other in self._open.pop(group_id, ()):
            self._waiting_for[other].discard(group_id)
        told = self._waiting_for.pop(group_id, set())
        met = {each for each in told if _is_met(self._open[each][group_id], status)}
        for each in told:
            del self._open[each][group_id]
        return met, told - met

    def _note(self, group_id: int, status: Status) -> None:
        if group_id >= len(self._ended):
            self._ended.extend(bytes(max(1024, group_id + 1 - len(self._ended))))
        self._ended[group_id] = 1 + _STATUSES.index(status)

    def _status_of(self, group_id: int) -> Status | None:
        code = self._ended[group_id] if group_id < len(self._ended) else 0
        return _STATUSES[code - 1] if code else None


def _is_met(when: When, status: Status) -> bool:
    return when is When.ANY or ANSWER[when] is status
