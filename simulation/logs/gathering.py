"""Rows become jobs. What no replay can take is counted with its reason, whatever format it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from simulation.logs.job import Ending, LoggedJob
from simulation.logs.log import LeftOut, Log, LogWrong

#: A text that many rows share is kept once.
_FEW = 100_000


@dataclass(slots=True, kw_only=True)
class Draft:
    """What a row says, instants in seconds since 1970. `cpus_milli` and `memory_mib` are of all of it."""

    line: int
    name: str
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    runtime: float | None = None
    withdrawn: float | None = None
    gpus: int | None = None
    nodes: int | None = None
    cpus_milli: int | None = None
    memory_mib: int | None = None
    gpu_model: str | None = None
    tenant: str = ""
    user: str = ""
    queue: str = ""
    priority: int = 0
    time_limit: float | None = None
    ending: Ending = Ending.UNKNOWN
    after: tuple[str, ...] = ()


class Gathering:
    """`columns`: by field of a Draft, what the file calls it."""

    def __init__(self, name: str, *, columns: Mapping[str, str]) -> None:
        self.left_out = LeftOut()
        self._name = name
        self._columns = columns
        self._jobs: list[LoggedJob] = []
        self._shared: dict[str, str] = {}
        self._warned: dict[str, tuple[int, int]] = {}
        self._latest = float("-inf")
        self._is_sorted = True

    def add(self, draft: Draft) -> None:
        """Settle what became of it, or note why it is left out."""
        submitted = draft.submitted
        if submitted is None:
            self._leave_out("it has no time of submission", draft, "submitted")
            return
        if not self._asks_for_something(draft):
            return
        withdrawn = self._withdrawn(draft, submitted)
        runtime = 0.0 if withdrawn is not None else self._runtime(draft)
        if runtime is None:
            return
        if submitted < self._latest:
            self._is_sorted = False
            self.warn("were submitted before the row above them; jobs are taken in order of time", draft.line)
        self._latest = max(self._latest, submitted)
        self._jobs.append(self._job(draft, submitted, runtime=runtime, withdrawn=withdrawn))

    def leave_out(self, text: str, *, line: int, column: str = "") -> None:
        self.left_out.note(text, line=line, column=column)

    def warn(self, text: str, line: int) -> None:
        """Of one row; counted with the first line."""
        count, first = self._warned.get(text, (0, line))
        self._warned[text] = (count + 1, min(first, line))

    def log(self, *, warnings: tuple[str, ...] = ()) -> Log:
        """Raises LogWrong if nothing is left."""
        if not self._jobs:
            reasons = "; ".join(map(str, self.left_out)) or "no row in it"
            raise LogWrong(f"{self._name} has no job that can be replayed: {reasons}")
        if not self._is_sorted:
            self._jobs.sort(key=lambda job: job.submitted_at)
        counted = (
            f"rows that {text}: {count} (first: line {line})" for text, (count, line) in self._warned.items()
        )
        return Log(name=self._name, jobs=self._jobs, left_out=self.left_out, warnings=(*warnings, *counted))

    def _leave_out(self, text: str, draft: Draft, field: str) -> None:
        self.left_out.note(text, line=draft.line, column=self._columns.get(field, ""))

    def _asks_for_something(self, draft: Draft) -> bool:
        if draft.gpus is not None and draft.gpus < 0:
            self._leave_out("it asks for fewer than 0 GPUs", draft, "gpus")
            return False
        if not draft.gpus and not (draft.cpus_milli and draft.cpus_milli > 0):
            self._leave_out("it asks for no GPU", draft, "gpus")
            return False
        return True

    def _withdrawn(self, draft: Draft, submitted: float) -> float | None:
        """When it was cancelled while it waited; None if it was not."""
        at = draft.withdrawn
        if at is None and draft.started is None and not draft.runtime and draft.ending is Ending.CANCELLED:
            at = draft.ended
        return None if at is None else max(at, submitted)

    def _runtime(self, draft: Draft) -> float | None:
        runtime, field = draft.runtime, "runtime"
        if runtime is None and draft.started is not None and draft.ended is not None:
            runtime, field = draft.ended - draft.started, "ended"
        if runtime is None:
            if draft.started is not None:
                self._leave_out("it had not ended when the log was written", draft, "ended")
            else:
                self._leave_out("it has no duration", draft, "runtime")
        elif runtime < 0:
            self._leave_out("its duration is negative", draft, field)
            return None
        return runtime

    def _job(self, draft: Draft, submitted: float, *, runtime: float, withdrawn: float | None) -> LoggedJob:
        if draft.started is not None and draft.started < submitted:
            self.warn("started before they were submitted", draft.line)
        limit = draft.time_limit
        if limit is not None and limit <= 0:
            self.warn("have a time limit of nothing; they are taken as without one", draft.line)
            limit = None
        return LoggedJob(
            line=draft.line,
            name=draft.name,
            submitted_at=_at(submitted),
            runtime_seconds=runtime,
            gpus=draft.gpus or 0,
            nodes=draft.nodes if draft.nodes and draft.nodes > 0 else None,
            cpus_milli=_amount(draft.cpus_milli),
            memory_mib=_amount(draft.memory_mib),
            gpu_model=None if draft.gpu_model is None else self._once(draft.gpu_model),
            tenant=self._once(draft.tenant),
            user=self._once(draft.user),
            queue=self._once(draft.queue),
            priority=draft.priority,
            time_limit_seconds=limit,
            ending=draft.ending,
            withdrawn_at=None if withdrawn is None else _at(withdrawn),
            started_at=None if draft.started is None else _at(draft.started),
            after=draft.after,
        )

    def _once(self, text: str) -> str:
        if len(self._shared) > _FEW:
            self._shared.clear()
        return self._shared.setdefault(text, text)


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _amount(amount: int | None) -> int | None:
    return amount if amount is None or amount >= 0 else None
