"""A kill that is about to happen at a point, and how a test leads up to it."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from service.client import ClientError
from tests.e2e.stacks import wait_for
from tests.faults.crash_point import wait_frozen
from tests.faults.journals import Body
from tests.faults.trial import Scene

Result = TypeVar("Result")
S = TypeVar("S", bound=Scene)


@dataclass
class Strike(Generic[S]):
    """A kill, or another `action`, that is about to happen at `point`. What a scenario puts into `afterwards`
    is done when the stack is back."""

    trial: S
    point: str
    action: str = "kill"
    afterwards: list[Callable[[], object]] = field(default_factory=list)

    def arm(self) -> None:
        self.trial.point.set(self.point, self.action)

    def wait_struck(self) -> None:
        """Until it has happened."""
        self.trial.point.wait_struck()

    @contextmanager
    def frozen_at(self, name: str) -> Iterator[int]:
        """Whoever comes to `name` stands still in the block, which has to `arm`; then it goes on."""
        self.trial.point.set(name, "freeze")
        with self.frozen() as pid:
            yield pid

    @contextmanager
    def frozen(self) -> Iterator[int]:
        """As `frozen_at`, for a freeze that was set before."""
        pid = self.trial.point.wait_struck()
        wait_frozen(pid)
        try:
            yield pid
        finally:
            os.kill(pid, signal.SIGCONT)


def insist(ask: Callable[[], Result]) -> Result:
    """Ask again while the API is away: it may be what is killed."""

    def once() -> Result | None:
        try:
            return ask()
        except ClientError:
            return None

    return wait_for(once, "the API answers")


def insist_on_submit(scene: Scene, body: Body, *ends: str) -> str:
    """Submit a group of the journal, with one key however often it is sent."""
    key = str(uuid.uuid4())
    return insist(lambda: scene.submit(body, *ends, key=key))
