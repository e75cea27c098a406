"""The life of an eviction, moment by moment, and the points that are passed from each moment on.

Where another moment, or load alone (scenarios.py), leads somebody the same way to a point, it is named once.
"""

from __future__ import annotations

from tests.faults import contests
from tests.faults.contests import Contest
from tests.faults.faults import frozen
from tests.faults.moments import Moments, SceneStrike
from tests.faults.steps import Step, arm_behind, arm_while_still
from tests.faults.strikes import insist

MOMENTS = Moments()


@MOMENTS.passes(
    "api.groups-submitted",
    "worker.bell-heard",
    "worker.cycle-written",
    "worker.committed",
    "worker.dispatchers-rung",
    "worker.published",
)
def two_are_about_to_give_way(strike: SceneStrike) -> None:
    contest = contests.begin(strike)
    strike.arm()
    contest.submit_claimant()


@MOMENTS.passes(
    "dispatcher.bell-heard",
    "launcher.stop-ordered",
    "dispatcher.members-told",
    "supervisor.end-seen",
    "supervisor.end-written",
    "launcher.generations-forbidden",
    "launcher.tombstone-written",
    "dispatcher.generations-closed",
    "dispatcher.pass-recorded",
    "dispatcher.leader-rung",
    "dispatcher.generations-forgotten",
)
def their_eviction_is_written_and_not_sent(strike: SceneStrike) -> None:
    contest = contests.begin(strike)
    arm_behind(strike, "worker.committed", contest.submit_claimant, contest.wait_evicting)


@MOMENTS.passes(
    "supervisor.end-seen",
    "supervisor.end-written",
    "dispatcher.generations-closed",
    "dispatcher.pass-recorded",
)
def they_ignore_that_they_are_told_to_stop(strike: SceneStrike) -> None:
    """Whoever dies, dies within their grace or when it is over."""
    contest = contests.begin(strike, seconds_to_stop=None)
    arm_behind(strike, "dispatcher.members-told", contest.submit_claimant)


@MOMENTS.passes(
    "worker.places-released",
    "worker.reserved",
    "worker.cycle-written",
    "worker.committed",
    "dispatcher.attempts-claimed",
    "dispatcher.members-launched",
    "dispatcher.pass-recorded",
)
def their_places_are_free_in_the_books(strike: SceneStrike) -> None:
    """The cycle that is next serves the claim, and says so in the receipts."""
    contest = contests.begin(strike)
    contest.submit_claimant()
    contest.wait_evicting()
    arm_while_still(strike, "worker", contest.wait_gone)


@MOMENTS.passes("worker.places-released", "worker.cycle-written", "worker.committed")
def the_claimant_has_ended_and_they_start_again(strike: SceneStrike) -> None:
    contest = contests.begin(strike, seconds_to_stop=0.1)
    contest.submit_claimant(seconds=0.5)
    contest.wait_claimant("Running")
    arm_while_still(strike, "worker", lambda: contest.wait_claimant("Succeeded"))


@MOMENTS.passes("ticker.usage-written", "ticker.usage-charged")
def their_first_attempts_are_charged(strike: SceneStrike) -> None:
    contest = contests.begin(strike, seconds_to_stop=0.1)
    arm_while_still(strike, "ticker", contest.submit_claimant, contest.wait_gone)


@MOMENTS.passes("api.change-written", "api.group-cancelled", "worker.cycle-written", "worker.committed")
def the_claimant_is_cancelled_before_they_are_gone(strike: SceneStrike) -> None:
    contest = contests.begin(strike, lambda contest: contest.assert_wasted("ClaimantEnded"))
    _ask_while_nobody_is_told(strike, contest, lambda: strike.trial.client.cancel(contest.claimant))


@MOMENTS.passes("api.group-held", "worker.cycle-written", "worker.committed")
def the_claimant_is_held_before_they_are_gone(strike: SceneStrike) -> None:
    contest = contests.begin(strike, lambda contest: contest.assert_wasted("EntitlementLost"))
    strike.afterwards.append(lambda: insist(lambda: strike.trial.client.cancel(contest.claimant)))
    _ask_while_nobody_is_told(strike, contest, lambda: strike.trial.client.hold(contest.claimant))


def _ask_while_nobody_is_told(strike: SceneStrike, contest: Contest, ask: Step) -> None:
    with frozen(strike.trial.up, "dispatcher"):
        contest.submit_claimant("Cancelled")
        contest.wait_evicting()
        strike.arm()
        insist(lambda: ask() or True)
        strike.wait_struck()


@MOMENTS.passes("api.groups-submitted", "worker.cycle-written", "worker.committed", "worker.published")
def one_that_may_take_from_nobody_has_its_places_kept(strike: SceneStrike) -> None:
    """A dated claim, made for one whose places are free when the time of others is over."""
    contest = contests.begin(strike, Contest.assert_claims, time_limit="1h")
    strike.arm()
    contest.submit_claimant("Cancelled", priority=0)
    strike.afterwards.append(lambda: insist(lambda: strike.trial.client.cancel(contest.claimant)))
