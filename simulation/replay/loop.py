"""The loop: what is due happens, a cycle decides, and what it decided comes to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from service.admission.cycle import plan_cycle
from service.admission.plan import Plan
from service.admission.policy import DEFAULT, Policy
from service.admission.resident import World
from service.admission.world import Changes, Configuration
from simulation.job import Job
from simulation.replay.agenda import Agenda, Cancel, Configure, Happening, Hold, Submit, Turn, Wake
from simulation.replay.books import Books
from simulation.replay.news import News

#: Cycles of one instant. A cycle follows another only while evictions end at once.
_ROUNDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One cycle: what had happened, what came of it, and the plan, which has been carried out."""

    now: datetime
    happenings: tuple[Happening, ...]
    news: News
    plan: Plan


class Simulation:
    """Deterministic: the same configuration and jobs give the same moments."""

    def __init__(self, configuration: Configuration, *, start_at: datetime, policy: Policy = DEFAULT) -> None:
        self.world = World.empty(half_life_seconds=policy.half_life_seconds)
        self.agenda = Agenda()
        self.books = Books(self.world, self.agenda, policy=policy)
        self.now = start_at
        self._policy = policy
        self._look_at: datetime | None = None
        self.world.apply(Changes(configuration=configuration))
        self.books.occupancy.configure(configuration)

    def submit(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self.agenda.note(job.row.submitted_at, Submit(job))

    def feed(self, jobs: Iterable[Job]) -> None:
        """Jobs in the order of their submission, each read when it is due."""
        self.agenda.feed(jobs)

    def cancel(self, group_id: int, at: datetime) -> None:
        self.agenda.note(at, Cancel(group_id))

    def hold(self, group_id: int, at: datetime, *, is_held: bool = True) -> None:
        """Or release."""
        self.agenda.note(at, Hold(group_id, is_held))

    def configure(self, configuration: Configuration, at: datetime) -> None:
        self.agenda.note(at, Configure(configuration))

    def turn(self, node_ids: tuple[int, ...], at: datetime, *, is_up: bool) -> None:
        """Nodes go down, or come up again."""
        self.agenda.note(at, Turn(node_ids, is_up))

    def run(self, until: datetime | None = None) -> Iterator[Moment]:
        """Every cycle until then, or until nothing is left to happen."""
        while (due_at := self._next_at()) is not None and (until is None or due_at <= until):
            self.now = max(self.now, due_at)
            for _ in range(_ROUNDS):
                yield self._cycle()
                if (next_at := self.agenda.next_at()) is None or next_at > self.now:
                    break
            else:
                raise RuntimeError(f"the cycles of {self.now.isoformat()} find no end")

    def _cycle(self) -> Moment:
        happenings = tuple(self.agenda.pop_due(self.now))
        news = self.books.news_of(happenings, self.now)
        self.world.apply(news.changes())
        plan = plan_cycle(self.world, self.now, policy=self._policy)
        self._look_at = plan.look_at
        self.books.commit(plan, self.now)
        return Moment(now=self.now, happenings=happenings, news=news, plan=plan)

    def _next_at(self) -> datetime | None:
        """The next thing to happen, or the next instant from which time alone changes what may start."""
        for wake_at in (self.world.next_wake(self.now), self._look_at):
            if wake_at is not None and (self.agenda.next_at() or wake_at) >= wake_at:
                self.agenda.note(wake_at, Wake())
        return self.agenda.next_at()
