"""A row of a log: what somebody submitted, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Ending(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    NODE_FAILED = "node_failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedJob:
    """Instants are aware, in UTC. What the log does not say is None, or empty.

    `line`: where it stands in the file, the first is 1. `runtime_seconds`: what it ran, 0 is possible.
    `gpus`, `cpus_milli` and `memory_mib` are of all of it, not of one node. `nodes`: the machines it was
    spread on, None: as few as hold it. `queue`: where it was submitted to. `withdrawn_at`: it was cancelled
    while it waited. `started_at`: in the log, for comparison only. `after`: the names of the jobs that had to
    end first.
    """

    line: int
    name: str
    submitted_at: datetime
    runtime_seconds: float
    gpus: int
    nodes: int | None = None
    cpus_milli: int | None = None
    memory_mib: int | None = None
    gpu_model: str | None = None
    tenant: str = ""
    user: str = ""
    queue: str = ""
    priority: int = 0
    time_limit_seconds: float | None = None
    ending: Ending = Ending.UNKNOWN
    withdrawn_at: datetime | None = None
    started_at: datetime | None = None
    after: tuple[str, ...] = ()
