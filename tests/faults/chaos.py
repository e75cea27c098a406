"""Random faults to a running stack, the same ones again from the same seed as far as timing allows."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil
import psycopg

from tests.faults import faults
from tests.faults.members import find_marks, owner_of
from tests.faults.trial import LEASE_SECONDS, Trial
from tests.faults.witness import connect

_POINT_SECONDS = 3.0


class Chaos:
    """`strike` does one fault and says which. Who is away already is left alone, and that is said, too.
    `points`: whoever comes to one of these is killed there, now and then. `has_processes`: members are
    processes."""

    def __init__(
        self, trial: Trial, seed: int, *, points: Sequence[str] = (), has_processes: bool = True
    ) -> None:
        self._trial = trial
        self._up = trial.up
        self._chance = random.Random(seed)
        self._faults: list[tuple[Callable[[], str], int]] = [
            (self._kill_service, 40),
            (self._kill_store, 10),
            (self._kill_two, 10),
            (self._kill_backend, 5),
            (self._freeze, 5),
        ]
        if has_processes:
            self._faults += [(self._kill_spawner, 5), (self._kill_supervisor, 15), (self._kill_member, 10)]
        self._points = points
        if points:
            self._faults.append((self._kill_at_point, 100))

    def strike(self) -> str:
        """One fault, and a pause of up to half a second."""
        fault = self._chance.choices([each for each, _ in self._faults], [n for _, n in self._faults])[0]
        try:
            said = fault()
        except (OSError, psutil.Error, psycopg.Error, StopIteration, IndexError) as error:
            # The dice are cast all the same, so that what follows is what the seed says.
            said = f"{fault.__name__.strip('_')}: nobody is there ({type(error).__name__})"
        time.sleep(self._chance.uniform(0.0, 0.5))
        return said

    def _kill_service(self) -> str:
        return self._kill(self._chance.choice(faults.SERVICES))

    def _kill_store(self) -> str:
        return self._kill(self._chance.choice(faults.STORES))

    def _kill_two(self) -> str:
        both = self._chance.sample([*faults.SERVICES, *faults.STORES], 2)
        return " and ".join(map(self._kill, both))

    def _kill(self, part: str) -> str:
        os.kill(self._up.identity(part).pid, signal.SIGKILL)
        return part

    def _kill_at_point(self) -> str:
        """Whoever comes there in the next moment."""
        name = self._chance.choice(self._points)
        point = self._trial.point
        point.set(name)
        try:
            return f"{name} ({point.wait_struck(seconds=_POINT_SECONDS)})"
        except AssertionError:
            return f"{name}: nobody came there"
        finally:
            point.clear()

    def _kill_backend(self) -> str:
        """PostgreSQL ends all its connections then, and recovers."""
        dice = self._chance.random()
        backends = psutil.Process(self._up.identity("postgres").pid).children()
        victim = backends[int(dice * len(backends))]
        victim.kill()
        return f"a process of PostgreSQL ({victim.pid})"

    def _kill_spawner(self) -> str:
        faults.spawner(self._up).kill()
        return "the spawner"

    def _kill_supervisor(self) -> str:
        pid = self._choose_member(of=lambda process: faults.supervisor_of(process).pid)
        os.kill(pid, signal.SIGKILL)
        return f"a supervisor ({pid})"

    def _kill_member(self) -> str:
        """It has then failed, as if by itself: its group may fail."""
        pid = self._choose_member(of=lambda process: process.pid)
        os.kill(pid, signal.SIGKILL)
        return f"a process of a member ({pid})"

    def _choose_member(self, *, of: Callable[[psutil.Process], int]) -> int:
        """The pid that `of` a process of some member is, which is no other's; its group may fail now."""
        dice = self._chance.random()
        marks = list(find_marks(owner_of(self._up.data)))
        process, key = marks[int(dice * len(marks))]
        pid = of(psutil.Process(process.id.pid))
        with connect(self._up.data) as conn:
            found = conn.execute(
                "SELECT g.public_id::text FROM groups g JOIN units u ON u.group_id = g.id WHERE u.id = %s",
                [key.unit_id],
            ).fetchone()
        assert found is not None
        self._trial.expect(found[0], "Succeeded", "Failed")
        return pid

    def _freeze(self) -> str:
        part = self._chance.choice(["worker", "dispatcher", "api", "valkey", "postgres"])
        seconds = self._chance.uniform(0.2, 1.5 * LEASE_SECONDS)
        pids = faults.freeze(self._up.identity(part))
        time.sleep(seconds)
        with suppress(ProcessLookupError):
            faults.thaw(pids)
        return f"{part} stood still for {seconds:.1f} s"
