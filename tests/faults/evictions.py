"""The life of an eviction, moment by moment, and the points that are passed from each moment on."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults import contests
from tests.faults.contests import Contest, standing_still
from tests.faults.moments import Moments, SceneStrike
from tests.faults.strikes import insist

MOMENTS = Moments()


@MOMENTS.passes(
    "api.groups-written",
    "api.groups-submitted",
    "api.cycle-woken",
    "worker.bell-heard",
    "worker.cycle-written",
    "worker.committed",
    "worker.dispatchers-rung",
    "worker.published",
)
def two_are_about_to_give_way(strike: SceneStrike) -> None:
    contest = contests.begin(strike)
    strike.afterwards.append(contest.assert_served)
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
    strike.afterwards.append(contest.assert_served)
    strike.trial.point.set("worker.committed", "freeze")
    contest.submit_claimant()
    with strike.frozen():
        contest.wait_victims("Evicting", attempt=1)
        strike.arm()


@MOMENTS.passes(
    "supervisor.end-seen",
    "supervisor.end-written",
    "dispatcher.generations-closed",
    "dispatcher.pass-recorded",
    "worker.places-released",
)
def they_ignore_that_they_are_told_to_stop(strike: SceneStrike) -> None:
    """Whoever dies, dies within their grace or when it is over."""
    contest = contests.begin(strike, seconds_to_stop=None)
    strike.afterwards.append(contest.assert_served)
    strike.trial.point.set("dispatcher.members-told", "freeze")
    contest.submit_claimant()
    with strike.frozen():
        strike.arm()


@MOMENTS.passes(
    "worker.bell-heard",
    "worker.places-released",
    "worker.reserved",
    "worker.cycle-written",
    "worker.committed",
    "worker.dispatchers-rung",
    "worker.published",
    "dispatcher.attempts-claimed",
    "dispatcher.members-launched",
    "dispatcher.pass-recorded",
)
def their_places_are_free_in_the_books(strike: SceneStrike) -> None:
    """The cycle that is next serves the claim, and says so in the receipts."""
    contest = contests.begin(strike)
    strike.afterwards.append(contest.assert_served)
    contest.submit_claimant()
    contest.wait_victims("Evicting", attempt=1)
    with standing_still(strike, "worker"):
        contest.wait_victims("Pending", attempt=2)
        strike.arm()


@MOMENTS.passes(
    "worker.places-released",
    "worker.reserved",
    "worker.cycle-written",
    "worker.committed",
    "dispatcher.attempts-claimed",
    "dispatcher.members-launched",
    "dispatcher.pass-recorded",
)
def the_claimant_has_ended_and_they_start_again(strike: SceneStrike) -> None:
    contest = contests.begin(strike, seconds_to_stop=0.1)
    strike.afterwards.append(contest.assert_served)
    contest.submit_claimant(seconds=0.5)
    contest.wait_claimant("Running")
    with standing_still(strike, "worker"):
        contest.wait_claimant("Succeeded")
        strike.arm()


@MOMENTS.passes("ticker.usage-written", "ticker.usage-charged")
def their_first_attempts_are_charged(strike: SceneStrike) -> None:
    contest = contests.begin(strike, seconds_to_stop=0.1)
    strike.afterwards.append(contest.assert_served)
    with standing_still(strike, "ticker"):
        contest.submit_claimant()
        contest.wait_victims("Pending", attempt=2)
        strike.arm()


@MOMENTS.passes(
    "api.change-written",
    "api.group-cancelled",
    "worker.cycle-written",
    "worker.committed",
    "worker.dispatchers-rung",
    "worker.published",
)
def the_claimant_is_cancelled_before_they_are_gone(strike: SceneStrike) -> None:
    contest = contests.begin(strike)
    strike.afterwards.append(lambda: contest.assert_wasted("ClaimantEnded"))
    _cancel_while_nobody_is_told(strike, contest, lambda: strike.trial.client.cancel(contest.claimant))


@MOMENTS.passes("api.group-held", "worker.cycle-written", "worker.committed")
def the_claimant_is_held_before_they_are_gone(strike: SceneStrike) -> None:
    contest = contests.begin(strike)
    strike.afterwards.append(lambda: contest.assert_wasted("EntitlementLost"))
    strike.afterwards.append(lambda: insist(lambda: strike.trial.client.cancel(contest.claimant)))
    _cancel_while_nobody_is_told(strike, contest, lambda: strike.trial.client.hold(contest.claimant))


def _cancel_while_nobody_is_told(strike: SceneStrike, contest: Contest, ask: Callable[[], object]) -> None:
    with standing_still(strike, "dispatcher"):
        contest.submit_claimant("Cancelled")
        contest.wait_victims("Evicting", attempt=1)
        strike.arm()
        insist(lambda: ask() or True)
        strike.trial.point.wait_struck()


@MOMENTS.passes("api.groups-submitted", "worker.cycle-written", "worker.committed", "worker.published")
def one_that_may_take_from_nobody_has_its_places_kept(strike: SceneStrike) -> None:
    """A dated claim, made for one whose places are free when the time of others is over."""
    contest = contests.begin(strike, time_limit="1h")
    strike.afterwards.append(contest.assert_claims)
    strike.arm()
    contest.submit_claimant("Cancelled", priority=0)
    strike.afterwards.append(lambda: insist(lambda: strike.trial.client.cancel(contest.claimant)))
