"""The workers of a timeline: leaders by name, of which some are frozen or killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from workers.admission import Leader


@dataclass
class Worker:
    """A leader, and whether it stands still or is gone."""

    leader: Leader
    is_frozen: bool = False
    is_killed: bool = False


@dataclass
class Workers:
    """`make` builds a leader of a name. After a restart all are made anew.

    `has_doubt`: a worker froze or was killed, and no other has run a cycle since; what it left in
    the ledger may not be in PostgreSQL.
    """

    make: Callable[[str], Leader]
    by_name: dict[str, Worker] = field(default_factory=dict)
    last_leading: str = "w1"
    has_doubt: bool = False
    refusals: dict[str, list[str]] = field(default_factory=dict)

    def get(self, name: str) -> Worker:
        if name not in self.by_name:
            self.by_name[name] = Worker(self.make(name))
        return self.by_name[name]

    def freeze_after(self, name: str, point: str) -> None:
        """Run a cycle up to `point` (read or reserve) and stand still there."""
        worker = self.get(name)
        worker.is_frozen = True
        self.has_doubt = True
        if worker.leader.read_and_plan() and point == "reserve":
            worker.leader.reserve()

    def resume(self, name: str) -> None:
        worker = self.get(name)
        worker.is_frozen = False
        self._ran(name, worker.leader.resume().is_leader)

    def cycle(self, name: str) -> bool:
        """One cycle; False if the worker does not lead. An error of a cycle is an error of the run."""
        worker = self.get(name)
        if worker.is_frozen or worker.is_killed:
            raise AssertionError(f"{name} is frozen or killed and cannot run a cycle")
        result = worker.leader.run_cycle()
        self._ran(name, result.is_leader)
        return result.is_leader

    def apply_releases(self) -> bool:
        """What the worker that led last does in a dispatcher pass."""
        worker = self.get(self.last_leading)
        if worker.is_frozen or worker.is_killed:
            return False
        return worker.leader.apply_releases()

    def kill(self, name: str) -> None:
        worker = self.get(name)
        worker.is_killed, worker.is_frozen = True, False
        self.has_doubt = True
        worker.leader.abandon()

    def close(self) -> None:
        """The service stops: those that run leave in good order, frozen ones just vanish."""
        for name, worker in self.by_name.items():
            self.refusals[name] = self.stale_refusals(name)
            if worker.is_frozen or worker.is_killed:
                worker.leader.abandon()
            else:
                worker.leader.close()
        self.by_name.clear()
        self.last_leading = "w1"

    def stale_refusals(self, name: str) -> list[str]:
        """Who refused late writes of this worker, over its whole life."""
        of_now = self.by_name[name].leader.stale_refusals if name in self.by_name else []
        return self.refusals.get(name, []) + [refusal.by for refusal in of_now]

    def _ran(self, name: str, is_leader: bool) -> None:
        if is_leader:
            self.last_leading = name
            self.has_doubt = False
