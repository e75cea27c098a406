"""Part 1: GPUs are handed out process by process, on the simulated launcher.

Each process is started as soon as it has a GPU, as a unit of its own, because nobody knows that some
of them need each other. A gang takes a step in each second in which all its ranks live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from examples.demo.claims import Claim
from examples.demo.per_process import PerProcessAllocator, Process
from examples.demo.screen import Frame, Row
from examples.demo.simulated_node import SimulatedNode
from examples.demo.submitted import ALL, GANGS, GPUS, RANKS, STEPS, TASK_GROUP, TASKS
from service.clock import VirtualClock

#: Of the simulated clock.
_TASK_SECONDS = 6
_WATCHED_SECONDS = 3600

Show = Callable[[Frame], None]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How it ended: GPUs handed out, ranks that live and steps taken by gang, tasks that ended, and
    for how many seconds nothing changed any more."""

    handed_out: int
    ranks: dict[str, int]
    steps: dict[str, int]
    tasks_done: int
    unchanged_seconds: int

    @property
    def progressing(self) -> int:
        return sum(steps > 0 for steps in self.steps.values())

    def claims(self) -> list[Claim]:
        half = RANKS - 2
        return [
            Claim(f"{GPUS} of {GPUS} GPUs are handed out", self.handed_out == GPUS),
            Claim(
                f"both gangs hold GPUs for {half} of their {RANKS} ranks",
                all(self.ranks[gang] == half for gang in GANGS),
            ),
            Claim(
                "neither gang has taken a step: nobody moves",
                self.progressing == 0 and self.unchanged_seconds == _WATCHED_SECONDS,
                f"nothing changed in {self.unchanged_seconds} simulated seconds",
            ),
            Claim("the tasks, which need nobody, passed through", self.tasks_done == TASKS),
        ]


class Run:
    """One simulated node, its allocator, and what came of it."""

    def __init__(self, node: SimulatedNode, clock: VirtualClock) -> None:
        self._node = node
        self._clock = clock
        self._allocator = PerProcessAllocator(GPUS)
        self._started_at = clock.now()
        self._steps = Counter[str]()
        self._tasks_done = 0

    def tick(self, arriving: Process | None) -> bool:
        """One second. True if anything was handed out or ended, or anybody took a step."""
        self._clock.advance(1)
        # 1. The next request.
        if arriving is not None:
            self._allocator.request(arriving)
        # 2. What has ended gives back its GPU.
        ended = self._node.take_ended()
        for process in ended:
            self._allocator.release(process)
            self._tasks_done += process.job == TASK_GROUP
        # 3. What is free goes to the first in line, each for itself.
        granted = self._allocator.grant()
        for gpu, process in granted:
            self._node.start(process, gpu, seconds=_TASK_SECONDS if process.job == TASK_GROUP else None)
        # 4. A gang takes a step if all of its ranks are there, and ends with its last one.
        moving = [gang for gang in GANGS if self._ranks(gang) == RANKS]
        self._steps.update(moving)
        for gang in moving:
            if self._steps[gang] == STEPS:
                self._node.end(gang)
        return bool(ended or granted or moving)

    def frame(self, *, is_over: bool = False) -> Frame:
        seconds = int((self._clock.now() - self._started_at).total_seconds())
        return Frame(
            clock=f"{seconds} s",
            holders=[holder and holder.job for holder in self._allocator.holders],
            rows=[self._row(name, is_over=is_over) for name in ALL],
        )

    def outcome(self, unchanged_seconds: int) -> Outcome:
        return Outcome(
            handed_out=self._allocator.used,
            ranks={gang: self._ranks(gang) for gang in GANGS},
            steps={gang: self._steps[gang] for gang in GANGS},
            tasks_done=self._tasks_done,
            unchanged_seconds=unchanged_seconds,
        )

    def _ranks(self, job: str) -> int:
        return sum(process.job == job for process in self._node.live())

    def _row(self, name: str, *, is_over: bool) -> Row:
        held = self._allocator.held(name)
        if name == TASK_GROUP:
            done = f"{self._tasks_done} of {TASKS} done"
            status = "done" if self._tasks_done == TASKS else "running" if held else "waiting"
            return Row(
                name=name, status=status, members=self._ranks(name), of=TASKS, gpus=held, progress=done
            )
        missing = RANKS - self._ranks(name)
        return Row(
            name=name,
            status="stuck" if is_over else "waiting" if missing else "training",
            members=self._ranks(name),
            of=RANKS,
            gpus=held,
            progress=f"step {self._steps[name]} of {STEPS}",
            why=f"waits for {missing} more ranks" if missing and held else "",
        )


def run(arrivals: Sequence[Process], show: Show, pause: Callable[[], None]) -> Outcome:
    """Let the requests arrive, one in a second, until nothing happens any more; then watch for an hour."""
    clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
    with SimulatedNode(clock) as node:
        run = Run(node, clock)
        line = list(arrivals)
        quiet = 0
        while quiet <= 2 * _TASK_SECONDS:
            has_changed = run.tick(line.pop(0) if line else None)
            quiet = 0 if has_changed or line else quiet + 1
            if has_changed:
                show(run.frame())
                pause()
        unchanged = 0
        while unchanged < _WATCHED_SECONDS and not run.tick(None):
            unchanged += 1
        show(run.frame(is_over=True))
        return run.outcome(unchanged)
