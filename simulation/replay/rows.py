"""One entry for each group, while it is replayed."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import isnan, nan

from service.domain.status import Cause, Status
from simulation.job import Job
from simulation.outcome.columns import Groups
from simulation.outcome.group import Fate

_FATES = {Status.SUCCEEDED: Fate.SUCCEEDED, Status.FAILED: Fate.FAILED, Status.CANCELLED: Fate.CANCELLED}


@dataclass(slots=True)
class Live:
    """A group that has not ended. `waiting`: units that wait; `is_timed_out`: one ran into its limit."""

    number: int
    unit_gpus: int
    waiting: int
    is_timed_out: bool = False


class Rows:
    """`waiting` groups, which ask for `waiting_gpus`."""

    def __init__(self) -> None:
        self.groups = _empty()
        self.group_ids = array("q")
        self.waiting = self.waiting_gpus = 0
        self._tenants: dict[str, int] = {}
        self.live: dict[int, Live] = {}

    @property
    def tenants(self) -> tuple[str, ...]:
        return tuple(self._tenants)

    def submit(self, job: Job, at: float) -> None:
        row, groups = job.row, self.groups
        units, unit_gpus = row.last_index - row.first_index + 1, job.shape.total().gpus
        live = self.live[row.group_id] = Live(number=len(self.group_ids), unit_gpus=unit_gpus, waiting=0)
        limit = row.time_limit_seconds
        self.group_ids.append(row.group_id)
        groups.tenant.append(self._tenants.setdefault(job.tenant, len(self._tenants)))
        groups.gpus.append(units * unit_gpus)
        groups.submitted_at.append(at)
        groups.time_limit_seconds.append(nan if limit is None else limit)
        for unknown in (
            groups.first_started_at,
            groups.last_started_at,
            groups.ended_at,
            groups.bound_seconds,
        ):
            unknown.append(nan)
        for none in (groups.ran_seconds, groups.wasted_gpu_seconds):
            none.append(0.0)
        groups.evictions.append(0)
        groups.fate.append(Fate.WAITING)
        self.wait(live, units)

    def wait(self, live: Live, units: int) -> None:
        """So many more units of it wait."""
        before = live.waiting
        live.waiting += units
        self.waiting += bool(live.waiting) - bool(before)
        self.waiting_gpus += units * live.unit_gpus

    def start(self, live: Live, at: float) -> None:
        self.wait(live, -1)
        if isnan(self.groups.first_started_at[live.number]):
            self.groups.first_started_at[live.number] = at
        self.groups.last_started_at[live.number] = at

    def close(
        self, live: Live, *, gpus: int, ran: float, lost: float, to: Status, cause: Cause | None
    ) -> None:
        """An attempt is over, which ran for so many seconds, and before that for some in vain."""
        groups, number = self.groups, live.number
        live.is_timed_out |= cause is Cause.TIME_LIMIT
        if to is Status.PENDING:
            groups.evictions[number] += cause is Cause.PREEMPTED
            self.wait(live, 1)
            lost += ran
        else:
            groups.ran_seconds[number] = max(groups.ran_seconds[number], ran)
        groups.wasted_gpu_seconds[number] += gpus * lost

    def end(self, group_id: int, status: Status, at: float) -> None:
        live = self.live.pop(group_id)
        is_timed_out = status is Status.FAILED and live.is_timed_out
        self.groups.fate[live.number] = Fate.TIMED_OUT if is_timed_out else _FATES[status]
        self.groups.ended_at[live.number] = at


def _empty() -> Groups:
    return Groups(
        tenant=array("i"),
        gpus=array("i"),
        submitted_at=array("d"),
        first_started_at=array("d"),
        last_started_at=array("d"),
        ended_at=array("d"),
        ran_seconds=array("d"),
        evictions=array("i"),
        wasted_gpu_seconds=array("d"),
        fate=array("i"),
        time_limit_seconds=array("d"),
        bound_seconds=array("d"),
    )
