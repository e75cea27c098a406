"""An elastic group that grows into what is free, and gives up what another needs; on simulated members."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from service.client import ClientError
from service.client.groups import Group
from tests.e2e.stacks import wait_for, wait_status
from tests.faults.strikes import Strike, insist, insist_on_submit
from tests.faults.trial import Scene
from tests.faults.witness import connect

_QUEUE = "elastic"

#: Of the running unit of a group: how many it holds, and whether a resize of it is under way.
_SIZE = """
    SELECT jsonb_array_length(a.places), a.adding IS NOT NULL OR a.dropping IS NOT NULL
    FROM attempts a JOIN groups g ON g.id = a.group_id WHERE g.public_id = %s AND a.attempt = 1
"""
_RESIZES = """
    SELECT (e.data ->> 'revision')::int FROM events e JOIN groups g ON g.id = e.group_id
    WHERE g.public_id = %s AND e.kind = 'Resized' ORDER BY e.id
"""


@dataclass
class Elastic:
    """A group of two to eight members on eight GPUs, beside another of four."""

    scene: Scene
    group: str = ""
    beside: str = ""

    def submit_claimant(self) -> None:
        """A gang of four that it makes room for."""
        body = self.scene.journal.gang(4, name="claimant") | {"queue": _QUEUE, "priority": 10}
        self.beside = insist_on_submit(self.scene, body)

    def cancel_beside(self) -> None:
        insist(lambda: self.scene.client.cancel(self.beside))

    def cancel(self) -> None:
        insist(lambda: self.scene.client.cancel(self.group))

    def wait_size(self, size: int) -> None:
        """Until it holds so many and nothing more is to come."""
        self._wait((size, False))

    def wait_resizing(self, size: int) -> None:
        """Until a resize is under way, and so many places are held."""
        self._wait((size, True))

    def wait_cancelled(self) -> None:
        wait_status(self.scene.client, self.group, "Cancelled")

    def wait_beside(self, status: str) -> None:
        wait_status(self.scene.client, self.beside, status)

    def assert_grown(self) -> None:
        """To all, in its first attempt and generation, and each revision was told once."""
        self.wait_size(8)
        group = wait_for(self._find_whole, "all its members are there")
        assert (group.status, group.attempt, group.generation) == ("Running", 1, 1)
        with connect(self.scene.up.data) as conn:
            told = [row[0] for row in conn.execute(_RESIZES, [self.group])]
        assert told == sorted(set(told))

    def assert_shrunk_for(self) -> None:
        """Whom it made room for ran; then it grew again."""
        self.wait_beside("Succeeded")
        self.assert_grown()

    def _find_whole(self) -> Group | None:
        group = self.scene.client.get(self.group)
        return group if group.present_members == 8 else None

    def _wait(self, wanted: tuple[int, bool]) -> None:
        def look() -> bool | None:
            with connect(self.scene.up.data) as conn:
                return True if conn.execute(_SIZE, [self.group]).fetchone() == wanted else None

        wait_for(look, f"it holds {wanted[0]}, and {'something is' if wanted[1] else 'nothing is'} to come")


def begin(strike: Strike[Scene], come_of_it: Callable[[Elastic], object], *, beside: int = 0) -> Elastic:
    """It runs and holds all that it can have, beside a gang of so many that runs until it is told to stop.
    `come_of_it`: what must have, in the end."""
    scene = strike.trial
    with suppress(ClientError):  # there is one from before
        scene.client.queues.create(_QUEUE, {"preempt_within": "lower_priority"})
    elastic = Elastic(scene)
    if beside:
        body = scene.journal.long_gang(beside, name="beside") | {"queue": _QUEUE}
        elastic.beside = scene.run(body, "Cancelled")
    role = scene.journal.long_gang(8, name="elastic")
    command = {"count": 8, "min_count": 2, "requests": {"gpus": 1}, "command": role.pop("command")}
    del role["members"], role["gpus"]
    body = role | {"queue": _QUEUE, "roles": [command], "elastic": {"resize": "while_running"}}
    elastic.group = scene.run(body, "Cancelled")
    elastic.wait_size(8 - beside)
    strike.afterwards.append(lambda: come_of_it(elastic))
    strike.afterwards.append(elastic.cancel)
    return elastic
