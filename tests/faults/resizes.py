"""The life of a resize, moment by moment, and the points that are passed from each moment on.

Where another moment leads somebody the same way to a point, it is named once.
"""

from __future__ import annotations

from tests.faults import sizes
from tests.faults.moments import Moments, SceneStrike
from tests.faults.sizes import Elastic
from tests.faults.steps import arm_behind, arm_while_still

MOMENTS = Moments()


@MOMENTS.passes(
    "worker.places-released",
    "worker.resizes-reserved",
    "worker.cycle-written",
    "worker.committed",
    "worker.dispatchers-rung",
    "worker.published",
)
def places_are_free_that_nobody_waits_for(strike: SceneStrike) -> None:
    elastic = sizes.begin(strike, Elastic.assert_grown, beside=4)
    arm_while_still(strike, "worker", elastic.cancel_beside, lambda: elastic.wait_beside("Cancelled"))


@MOMENTS.passes(
    "dispatcher.bell-heard",
    "dispatcher.attempts-claimed",
    "dispatcher.members-launched",
    "dispatcher.pass-recorded",
    "dispatcher.leader-rung",
)
def growth_is_written_and_not_sent(strike: SceneStrike) -> None:
    elastic = sizes.begin(strike, Elastic.assert_grown, beside=4)
    strike.trial.point.set("worker.resizes-reserved", "freeze")
    elastic.cancel_beside()
    # Before that somebody may commit something else.
    with strike.frozen():
        strike.trial.point.set("worker.committed", "freeze")
    with strike.frozen():
        elastic.wait_resizing(8)
        strike.arm()


@MOMENTS.passes("worker.resizes-given-back")
def what_was_to_grow_is_planned_anew(strike: SceneStrike) -> None:
    """The configuration changes between the ledger and the books."""
    elastic = sizes.begin(strike, Elastic.assert_grown, beside=4)
    queues = strike.trial.client.queues
    arm_behind(
        strike,
        "worker.resizes-reserved",
        elastic.cancel_beside,
        lambda: queues.update("default", {"weight": 1.0}),
    )


@MOMENTS.passes("worker.cycle-written", "worker.committed")
def it_is_about_to_shrink(strike: SceneStrike) -> None:
    elastic = sizes.begin(strike, Elastic.assert_shrunk_for)
    strike.arm()
    elastic.submit_claimant()


@MOMENTS.passes(
    "dispatcher.members-told",
    "dispatcher.members-closed",
    "dispatcher.pass-recorded",
    "dispatcher.leader-rung",
)
def its_shrinking_is_written_and_not_sent(strike: SceneStrike) -> None:
    elastic = sizes.begin(strike, Elastic.assert_shrunk_for)
    arm_behind(strike, "worker.committed", elastic.submit_claimant, lambda: elastic.wait_resizing(8))


@MOMENTS.passes(
    "worker.bell-heard",
    "worker.places-dropped",
    "worker.reserved",
    "worker.cycle-written",
    "worker.committed",
    "dispatcher.members-launched",
    "dispatcher.pass-recorded",
)
def what_it_gave_up_is_free_in_the_books(strike: SceneStrike) -> None:
    elastic = sizes.begin(strike, Elastic.assert_shrunk_for)
    elastic.submit_claimant()
    elastic.wait_resizing(8)
    arm_while_still(strike, "worker", lambda: elastic.wait_size(4))


@MOMENTS.passes("dispatcher.generations-closed", "dispatcher.pass-recorded", "worker.places-released")
def it_is_cancelled_in_the_middle_of_shrinking(strike: SceneStrike) -> None:
    """It is charged once, for all that it held until it was gone."""
    elastic = sizes.begin(strike, lambda elastic: elastic.wait_beside("Succeeded"))
    arm_behind(
        strike,
        "worker.committed",
        elastic.submit_claimant,
        lambda: elastic.wait_resizing(8),
        elastic.cancel,
    )


@MOMENTS.passes("ticker.usage-written", "ticker.usage-charged")
def it_has_grown_and_ended_and_is_charged(strike: SceneStrike) -> None:
    """Once, for what it held before and after."""
    elastic = sizes.begin(strike, lambda elastic: elastic.wait_beside("Cancelled"), beside=4)
    elastic.cancel_beside()
    elastic.wait_size(8)
    arm_while_still(strike, "ticker", elastic.cancel, elastic.wait_cancelled)
