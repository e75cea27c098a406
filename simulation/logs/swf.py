"""The standard workload format: 18 numbers a row, with comments of `;` before them.

Fields as the Parallel Workloads Archive defines them in version 2.2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from simulation.logs.gathering import Draft, Gathering
from simulation.logs.job import Ending
from simulation.logs.log import Log, LogWrong
from simulation.logs.open import text_lines

#: What a processor of the log stands for.
Processors: TypeAlias = Literal["gpus", "cpus"]
#: Which of the numbers is the tenant.
TenantFrom: TypeAlias = Literal["group", "user", "queue", "partition"]

_NAMES = (
    *("job", "submit", "wait", "run", "allocated", "cpu_time", "used_memory", "requested"),
    *("requested_time", "requested_memory", "status", "user", "group", "executable", "queue", "partition"),
    *("preceding", "think_time"),
)
_PLACE = {name: place for place, name in enumerate(_NAMES)}
_HEADER = re.compile(r";\s*(\w+)\s*:\s*(.*\S)")
_ENDINGS = {0: Ending.FAILED, 1: Ending.SUCCEEDED, 5: Ending.CANCELLED}
_PARTS = (2, 3, 4)
_LARGEST = 10**12


def read_swf(path: Path, *, processors: Processors = "gpus", tenant_from: TenantFrom = "group") -> Log:
    """Memory of a row is of one processor, in KiB. Raises LogWrong with line and column."""
    header: dict[str, str] = {}
    columns = {"submitted": "submit", "runtime": "run", "gpus": "allocated", "name": "job"}
    gathering = Gathering(path.name, columns=columns)
    start: float | None = None
    has_think_time = False
    for line, text in enumerate(text_lines(path), start=1):
        stripped = text.strip()
        if not stripped:
            continue
        if stripped.startswith(";"):
            if (found := _HEADER.match(stripped)) is not None:
                header.setdefault(found[1], found[2])
            continue
        row = _numbers(path, line, stripped)
        start = _start(path, header) if start is None else start
        if row[_PLACE["status"]] in _PARTS:
            gathering.leave_out("it is a part of a job that has a row of its own", line=line, column="status")
            continue
        has_think_time |= row[_PLACE["think_time"]] > 0 and row[_PLACE["preceding"]] > 0
        gathering.add(_draft(line, row, start=start, processors=processors, tenant_from=tenant_from))
    return gathering.log(warnings=_warnings(header, processors, has_think_time=has_think_time))


def _numbers(path: Path, line: int, text: str) -> list[float]:
    parts = text.split()
    if len(parts) != len(_NAMES):
        raise LogWrong(
            f"{path}, line {line}: {len(parts)} numbers where there should be {len(_NAMES)}: "
            "the row is broken, or the file breaks off there"
        )
    row = []
    for name, part in zip(_NAMES, parts, strict=True):
        try:
            number = float(part)
        except ValueError:
            number = math.nan
        if not abs(number) <= _LARGEST:
            raise LogWrong(f"{path}, line {line}, column {name}: {part[:60]!r} is no number within bounds")
        row.append(number)
    return row


def _start(path: Path, header: Mapping[str, str]) -> float:
    """When second 0 of the log was."""
    said = header.get("UnixStartTime", "0").split()[0]
    try:
        start = float(said)
    except ValueError:
        start = -1.0
    if not 0 <= start <= 1e11:
        raise LogWrong(f"{path}: UnixStartTime in its header is {said[:60]!r}, no second since 1970")
    return start


def _draft(
    line: int, row: list[float], *, start: float, processors: Processors, tenant_from: TenantFrom
) -> Draft:
    def said(name: str) -> float | None:
        """-1 stands for what is not known."""
        number = row[_PLACE[name]]
        return number if number >= 0 else None

    count = int(said("allocated") or said("requested") or 0)
    memory_kib = said("requested_memory") or said("used_memory")
    submitted, wait, run = said("submit"), said("wait"), said("run")
    started = None if submitted is None or wait is None else start + submitted + wait
    ending = _ENDINGS.get(int(row[_PLACE["status"]]), Ending.UNKNOWN)
    is_withdrawn = ending is Ending.CANCELLED and not run
    return Draft(
        line=line,
        name=str(int(row[_PLACE["job"]])),
        submitted=None if submitted is None else start + submitted,
        started=None if is_withdrawn or run is None else started,
        withdrawn=started if is_withdrawn else None,
        runtime=run,
        gpus=count if processors == "gpus" else 0,
        cpus_milli=count * 1000 if processors == "cpus" else None,
        memory_mib=None if memory_kib is None else math.ceil(memory_kib * count / 1024),
        tenant=_number_of(said(tenant_from)),
        user=_number_of(said("user")),
        queue=_number_of(said("queue")),
        time_limit=said("requested_time"),
        ending=ending,
        after=() if said("preceding") is None else (_number_of(said("preceding")),),
    )


def _number_of(number: float | None) -> str:
    return "" if number is None else str(int(number))


def _warnings(header: Mapping[str, str], processors: Processors, *, has_think_time: bool) -> tuple[str, ...]:
    warnings = [f"a processor of the log is taken for one {'GPU' if processors == 'gpus' else 'CPU'}"]
    if "UnixStartTime" not in header:
        warnings.append("the header names no UnixStartTime, so dates count from 1970-01-01")
    if has_think_time:
        warnings.append("think times are not kept: a job may start as soon as the one before it has ended")
    return tuple(warnings)
