"""The life of a resize, moment by moment, and the points that are passed from each moment on."""

from __future__ import annotations

from tests.faults import sizes
from tests.faults.contests import standing_still
from tests.faults.moments import Moments, SceneStrike

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
    elastic = sizes.begin(strike, beside=4)
    strike.afterwards.insert(0, elastic.assert_grown)
    with standing_still(strike, "worker"):
        elastic.cancel_beside()
        elastic.wait_beside("Cancelled")
        strike.arm()


@MOMENTS.passes(
    "dispatcher.bell-heard",
    "dispatcher.attempts-claimed",
    "dispatcher.members-launched",
    "dispatcher.pass-recorded",
    "dispatcher.leader-rung",
)
def growth_is_written_and_not_sent(strike: SceneStrike) -> None:
    elastic = sizes.begin(strike, beside=4)
    strike.afterwards.insert(0, elastic.assert_grown)
    strike.trial.point.set("worker.resizes-reserved", "freeze")
    elastic.cancel_beside()
    with strike.frozen():
        strike.trial.point.set("worker.committed", "freeze")
    with strike.frozen():
        elastic.wait_resizing(8)
        strike.arm()


@MOMENTS.passes("worker.resizes-given-back")
def what_was_to_grow_is_planned_anew(strike: SceneStrike) -> None:
    """The configuration changes between the ledger and the books."""
    elastic = sizes.begin(strike, beside=4)
    strike.afterwards.insert(0, elastic.assert_grown)
    strike.trial.point.set("worker.resizes-reserved", "freeze")
    elastic.cancel_beside()
    with strike.frozen():
        strike.trial.client.queues.update("default", {"weight": 1.0})
        strike.arm()


@MOMENTS.passes("worker.cycle-written", "worker.committed", "worker.dispatchers-rung", "worker.published")
def it_is_about_to_shrink(strike: SceneStrike) -> None:
    elastic = sizes.begin(strike, beside=0)
    strike.afterwards.insert(0, elastic.assert_shrunk_for)
    elastic.wait_size(8)
    strike.arm()
    elastic.submit_claimant()


@MOMENTS.passes(
    "dispatcher.bell-heard",
    "dispatcher.members-told",
    "dispatcher.members-closed",
    "dispatcher.pass-recorded",
    "dispatcher.leader-rung",
)
def its_shrinking_is_written_and_not_sent(strike: SceneStrike) -> None:
    elastic = sizes.begin(strike, beside=0)
    strike.afterwards.insert(0, elastic.assert_shrunk_for)
    elastic.wait_size(8)
    strike.trial.point.set("worker.committed", "freeze")
    elastic.submit_claimant()
    with strike.frozen():
        elastic.wait_resizing(8)
        strike.arm()


@MOMENTS.passes(
    "worker.bell-heard",
    "worker.places-dropped",
    "worker.reserved",
    "worker.cycle-written",
    "worker.committed",
    "dispatcher.attempts-claimed",
    "dispatcher.members-launched",
    "dispatcher.pass-recorded",
)
def what_it_gave_up_is_free_in_the_books(strike: SceneStrike) -> None:
    elastic = sizes.begin(strike, beside=0)
    strike.afterwards.insert(0, elastic.assert_shrunk_for)
    elastic.wait_size(8)
    elastic.submit_claimant()
    elastic.wait_resizing(8)
    with standing_still(strike, "worker"):
        elastic.wait_size(4)
        strike.arm()
