"""A stack under load to which something is about to happen, and what must be true afterwards."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from service.client import Client, ClientError
from tests.e2e.stacks import NODES, Up, environment, wait_for, wait_status
from tests.faults.crash_point import CrashPoint
from tests.faults.journals import Body, Journal, SimulatedJournal
from tests.faults.streams import Stream, small_groups
from tests.faults.verdict import SUCCEEDED, Ends, judge
from tests.faults.witness import Witness

#: Short, so that a test sees leases run out.
LEASE_SECONDS = 3.0
#: After the end of a fault everything answers and agrees again within this.
RECOVERY_SECONDS = 10.0


def start(data: Path, *, nodes: str = NODES, launcher: str = "local", **more: str) -> Up:
    """`muster up` on `data`, with short leases, points that `CrashPoint.of` sets, and `more` variables."""
    settings = {"MUSTER_LEASE_SECONDS": str(LEASE_SECONDS), **CrashPoint.of(data).environment, **more}
    environ = environment(MUSTER_DATA=str(data), **settings)
    return Up(data, environ=environ, nodes=nodes, launcher=launcher)


@dataclass(kw_only=True)
class Scene:
    """A stack, and the groups of the journal that a test submits to it. `ends`: the statuses in which each
    of them may end."""

    up: Up
    client: Client
    journal: Journal
    ends: dict[str, Ends] = field(default_factory=dict)

    @property
    def point(self) -> CrashPoint:
        """Where somebody of the stack is to be killed or frozen."""
        return CrashPoint.of(self.up.data)

    def submit(self, body: Body, *ends: str, key: str | None = None) -> str:
        """Submit a group of the journal, that may end as `ends` say (nothing said: Succeeded); its id."""
        group_id = self.client.submit(body, key=key or str(uuid.uuid4())).id
        self.expect(group_id, *ends)
        return group_id

    def run(self, body: Body, *ends: str) -> str:
        """`submit`, and wait until it runs."""
        group_id = self.submit(body, *ends)
        wait_status(self.client, group_id, "Running")
        return group_id

    def expect(self, group_id: str, *ends: str) -> None:
        """A group of the journal that the test had submitted otherwise."""
        self.ends[group_id] = frozenset(ends or ("Succeeded",))

    def assert_recovers(self) -> None:
        """Ready, and the audit clean, in time, while groups come and go."""
        assert_recovers(self.client)


@dataclass(kw_only=True)
class Trial(Scene):
    """A scene under load. `across`: a gang of three that runs from before the fault until after it."""

    stream: Stream
    across: str

    def assert_unharmed(self) -> None:
        """The gang that ran across the fault is still in its first generation."""
        group = self.client.get(self.across)
        assert (group.status, group.attempt, group.generation) == ("Running", 1, 1)


@contextmanager
def load_on(
    up: Up,
    folder: Path,
    *,
    pause_seconds: float = 0.2,
    groups: Callable[[Journal], Iterator[Body]] = small_groups,
    is_simulated: bool = False,
) -> Iterator[Trial]:
    """Load of these `groups` for the fault in the block; then section 13: see `tests/faults/conftest.py`."""
    with calm_on(up, folder, is_simulated=is_simulated) as scene:
        client, journal = scene.client, scene.journal
        across = scene.run(journal.long_gang(3), "Cancelled" if is_simulated else "Succeeded")
        with Stream(client.address, groups(journal), pause_seconds=pause_seconds) as stream:
            wait_for(lambda: True if len(stream.submits) >= 4 else None, "there is load")
            yield Trial(up=up, client=client, journal=journal, ends=scene.ends, stream=stream, across=across)
            scene.assert_recovers()
        for submit in stream.submits:
            assert submit.group_id == client.submit(submit.body, key=submit.key).id
            scene.ends.setdefault(submit.group_id, SUCCEEDED)
        if is_simulated:  # nobody else ends it
            client.cancel(across)


@contextmanager
def calm_on(up: Up, folder: Path, *, is_simulated: bool = False) -> Iterator[Scene]:
    """As `load_on`, but nothing happens besides what the block does: so it is known what comes next."""
    kind = SimulatedJournal if is_simulated else Journal
    journal = kind(folder, label=uuid.uuid4().hex)
    try:
        with (
            up.client() as client,
            Witness(up.data, client.address, members=journal.members_on(up.data)) as witness,
        ):
            scene = Scene(up=up, client=client, journal=journal)
            yield scene
            scene.assert_recovers()
            journal.open()
            judge(up, client, journal, scene.ends)
    finally:
        journal.open()
    assert not witness.faults, "\n".join(witness.faults)
    assert all(witness.samples.values()), witness.samples


def assert_recovers(client: Client) -> None:
    """Ready, and the audit clean, in time, while groups come and go."""

    def look() -> bool | None:
        try:
            client.ready()
            return True if client.audit().is_clean else None
        except ClientError:
            return None

    wait_for(look, "ready, with a clean audit", seconds=RECOVERY_SECONDS)
