"""Gangs that give way to one of a higher priority, and what must have come of it in the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from service.client import ClientError
from tests.e2e.stacks import wait_for, wait_status
from tests.faults.journals import Body
from tests.faults.strikes import Strike, insist_on_submit
from tests.faults.trial import Scene
from tests.faults.witness import connect

QUEUE = "contest"
_PRIORITY = 10

_UNITS = """
    SELECT u.status, u.attempt FROM units u JOIN groups g ON g.id = u.group_id
    WHERE g.public_id = ANY(%s::uuid[])
"""
#: When the first attempt of the claimant began, and the second of each victim.
_STARTS = """
    WITH starts AS (
        SELECT group_id, attempt, admitted_at FROM attempts
        UNION ALL SELECT group_id, attempt, admitted_at FROM closed_attempts
    )
    SELECT s.attempt, s.admitted_at FROM starts s JOIN groups g ON g.id = s.group_id
    WHERE g.public_id = %s ORDER BY s.attempt
"""


@dataclass
class Contest:
    """Two gangs of four on eight GPUs, and a gang of six that they give way to, once it is submitted."""

    scene: Scene
    victims: list[str] = field(default_factory=list)
    claimant: str = ""

    def submit_claimant(self, *ends: str, seconds: float = 0.3, priority: int = _PRIORITY) -> None:
        body = self.scene.journal.gang(6, seconds=seconds, name="claimant")
        self.claimant = insist_on_submit(self.scene, body | {"queue": QUEUE, "priority": priority}, *ends)

    def wait_victims(self, status: str, *, attempt: int) -> None:
        """Until each is that in its attempt of that number."""
        self._wait_units(self.victims, status, attempt=attempt)

    def wait_evicting(self) -> None:
        """Until that is in the books, and their members were perhaps told."""
        self.wait_victims("Evicting", attempt=1)

    def wait_gone(self) -> None:
        """Until the books have no place of theirs any more."""
        self.wait_victims("Pending", attempt=2)

    def wait_claimant(self, status: str) -> None:
        """By the books: whoever answers may be away."""
        self._wait_units([self.claimant], status, attempt=1)

    def assert_served(self) -> None:
        """The claimant ran in its first attempt, before any victim had a second, which runs now; and each
        victim has a receipt of its first."""
        wait_status(self.scene.client, self.claimant, "Succeeded")
        self.wait_victims("Running", attempt=2)
        began = self._starts(self.claimant)
        assert [attempt for attempt, _ in began] == [1]
        for victim in self.victims:
            (_, first_at), (_, second_at) = self._starts(victim)
            assert first_at < began[0][1] < second_at
            assert self._receipts(victim) == [(1, self.claimant, "Started", None)]

    def assert_wasted(self, cause: str) -> None:
        """The victims gave way for nothing, once, and run again."""
        self.wait_victims("Running", attempt=2)
        for victim in self.victims:
            assert self._receipts(victim) == [(1, self.claimant, "Wasted", cause)]

    def assert_claims(self) -> None:
        """Places are kept for the claimant until the time of the others is over, who run on."""
        claim = wait_for(lambda: self.scene.client.get(self.claimant).claim, "it has a claim")
        assert (claim.cause, claim.gpus, claim.due_at is not None) == ("Head", 6, True)
        self.wait_victims("Running", attempt=1)

    def _wait_units(self, groups: list[str], status: str, *, attempt: int) -> None:
        def look() -> bool | None:
            with connect(self.scene.up.data) as conn:
                found = conn.execute(_UNITS, [groups]).fetchall()
            return True if found == [(status, attempt)] * len(groups) else None

        wait_for(look, f"{groups} are {status}, attempt {attempt}")

    def _starts(self, group: str) -> list[tuple[int, datetime]]:
        with connect(self.scene.up.data) as conn:
            return conn.execute(_STARTS, [group]).fetchall()

    def _receipts(self, victim: str) -> list[tuple[int, str | None, str | None, str | None]]:
        return [
            (each.victim_attempt, each.claimant, each.outcome, each.outcome_cause)
            for each in self.scene.client.preemptions.list(group=victim)
        ]


def begin(
    strike: Strike[Scene],
    come_of_it: Callable[[Contest], object] = Contest.assert_served,
    *,
    seconds_to_stop: float | None = 0.5,
    time_limit: str | None = None,
) -> Contest:
    """The victims run. They take so long to stop; None: they have to be killed when their grace of a second
    is over. `come_of_it`: what must have, in the end."""
    scene = strike.trial
    with suppress(ClientError):  # there is one from before
        scene.client.queues.create(QUEUE, {"preempt_within": "lower_priority"})
    contest = Contest(scene)
    for _ in range(2):
        body = _victim(scene, seconds_to_stop) | {"time_limit": time_limit}
        contest.victims.append(scene.submit(body))
    contest.wait_victims("Running", attempt=1)
    strike.afterwards.append(lambda: come_of_it(contest))
    return contest


def _victim(scene: Scene, seconds_to_stop: float | None) -> Body:
    trap = 'trap "" TERM' if seconds_to_stop is None else f'trap "sleep {seconds_to_stop}; exit 143" TERM'
    body = scene.journal.doing(f'{trap}; while [ ! -e "$1" ]; do sleep 0.05; done', members=4, name="victim")
    return body | {"queue": QUEUE, "checkpoint": {"grace": "1s" if seconds_to_stop is None else "20s"}}
