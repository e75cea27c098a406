"""What `muster history` writes: a line that says so, then one group a line, as JSON."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from simulation.logs.gathering import Draft, Gathering
from simulation.logs.job import Ending
from simulation.logs.log import Log, LogWrong
from simulation.logs.open import text_lines

_ENDINGS = {"Succeeded": Ending.SUCCEEDED, "Failed": Ending.FAILED, "Cancelled": Ending.CANCELLED}
_CAUSES = {"TimeLimit": Ending.TIMED_OUT, "Infrastructure": Ending.NODE_FAILED}
_COLUMNS = {"submitted": "submitted_at", "runtime": "ended_at", "ended": "ended_at", "gpus": "gpus"}

T = TypeVar("T")


class _Head(msgspec.Struct, frozen=True):
    muster_history: int


class _Group(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts are of the whole group; `runs`: how often it was admitted."""

    id: str
    tenant: str
    owner: str
    queue: str
    priority: int
    status: str
    scheduling: str
    gpus: int
    cpus: float
    memory_gib: float
    gpu_model: str | None
    submitted_at: datetime
    admitted_at: datetime | None
    ended_at: datetime
    attempt: int | None
    cause: str | None
    time_limit_seconds: int | None
    after: list[str]


def is_history(line: str) -> bool:
    """Whether a file that begins with this line is one."""
    return line.startswith('{"muster_history"')


def read_history(path: Path) -> Log:
    """Raises LogWrong with the line."""
    lines = enumerate(text_lines(path), start=1)
    number, line = next(lines, (1, ""))
    head = _read(path, number, line, kind=_Head)
    if head.muster_history != 1:
        raise LogWrong(f"{path}, line 1: a history of version {head.muster_history}, which is not known here")
    gathering = Gathering(path.name, columns=_COLUMNS)
    for number, line in lines:
        group = _read(path, number, line, kind=_Group)
        if group.scheduling == "independent":
            gathering.warn("are independent groups; each is taken for one that starts as a whole", number)
        if group.attempt is not None and group.attempt > 1:
            gathering.warn("were admitted more than once; what counts is their last attempt", number)
        gathering.add(_draft(number, group))
    return gathering.log()


def _read(path: Path, number: int, line: str, *, kind: type[T]) -> T:
    if not line.endswith("\n"):
        raise LogWrong(f"{path}, line {number}: the file breaks off there")
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        what = "of the history" if kind is _Head else "of a group in a history"
        raise LogWrong(f"{path}, line {number}: no line {what}: {error}") from None


def _draft(number: int, group: _Group) -> Draft:
    started = None if group.admitted_at is None else group.admitted_at.timestamp()
    ending = _ENDINGS.get(group.status, Ending.UNKNOWN)
    if ending is Ending.FAILED:
        ending = _CAUSES.get(group.cause or "", ending)
    said: dict[str, Any] = {
        "name": group.id,
        "tenant": group.tenant,
        "user": group.owner,
        "queue": group.queue,
        "priority": group.priority,
        "gpus": group.gpus,
        "gpu_model": group.gpu_model,
        "after": tuple(group.after),
    }
    return Draft(
        line=number,
        submitted=group.submitted_at.timestamp(),
        started=started,
        ended=group.ended_at.timestamp(),
        withdrawn=group.ended_at.timestamp() if started is None else None,
        cpus_milli=round(group.cpus * 1000),
        memory_mib=round(group.memory_gib * 1024),
        time_limit=group.time_limit_seconds,
        ending=ending,
        **said,
    )
