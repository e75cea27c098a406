"""Cancel and refusal: at any moment, and always closed before it is released."""

from __future__ import annotations

from typing import Any

from service.domain.status import Cause, Status
from service.operations.evict import evict_units
from tests.integration.dispatch.site import Site
from workers.launchers.base import GenerationKey, LauncherUnreachable, MemberLaunch, Outcome
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_behaviour import Exit


def test_cancel_before_any_claim_needs_no_launcher(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.cluster.set_reachable("p1", is_reachable=False)

    site.cancel(unit)
    site.pass_at(1)

    assert site.status(unit) == "Cancelled"
    assert site.held() == 0
    assert site.launched(unit) == 0


def test_cancel_between_claim_and_launch_closes_by_the_launcher(site: Site) -> None:
    """The launch comes after the eviction: it is carried out, and then closed (X1, X2)."""
    unit = site.admit("g1", [("n1", (0,))])

    class CancelsFirst(SimulatedLauncher):
        def launch(self, members: Any) -> Any:
            site.cancel(unit)
            return super().launch(members)

    site.dispatcher.close()
    site.dispatcher = site.make_dispatcher("d2", wrap=lambda _: CancelsFirst(site.cluster, "p1"))
    site.pass_at(1)

    assert site.launched(unit) == 1
    assert site.live(unit) == 0
    assert site.status(unit) == "Cancelled"
    assert site.held() == 0


def test_cancel_while_it_starts_runs_or_recovers(site: Site) -> None:
    site.cluster.behave("starting", is_ready=False)
    starting = site.admit("starting", [("n1", (0,))])
    running = site.admit("running", [("n1", (1,))])
    recovering = site.admit("recovering", [("n1", (2,))])
    site.pass_at(1)
    site.cluster.behave("recovering", is_ready=False)
    site.cluster.end("recovering", exit_code=1)
    site.pass_at(2)
    assert [site.status(u) for u in (starting, running, recovering)] == ["Starting", "Running", "Recovering"]

    for unit in (starting, running, recovering):
        site.cancel(unit)
    site.pass_at(3)

    for unit in (starting, running, recovering):
        assert site.status(unit) == "Cancelled"
        assert site.unit(unit).cause == "Cancelled"
        assert site.live(unit) == 0
    assert site.held() == 0


def test_a_cancel_overrides_an_eviction_under_way(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], grace_seconds=20)
    site.cluster.behave("g1", exits=Exit.AFTER_GRACE)
    site.pass_at(1)
    with site.engine.begin() as conn:
        evicted = evict_units(
            conn,
            [unit.id],
            target=Status.PENDING,
            cause=Cause.PREEMPTED,
            message="for another",
            now=site.clock.now(),
        )
    assert evicted.unit_ids == (unit.id,)
    kill_at = site.attempt(unit).kill_at
    site.pass_at(5)

    assert site.cancel(unit).unit_ids == (unit.id,)
    assert site.cancel(unit).unit_ids == ()
    assert site.attempt(unit).kill_at == kill_at
    site.pass_at(22)

    assert site.status(unit) == "Cancelled"


def test_evicting_what_holds_nothing_does_nothing(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.pass_at(1)
    site.cluster.end("g1")
    site.pass_at(2)
    assert site.cancel(unit).unit_ids == ()
    assert site.status(unit) == "Succeeded"


def test_an_exit_0_after_being_told_is_no_success(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], grace_seconds=20)
    site.cluster.behave("g1", exits=Exit.WHEN_TOLD)
    site.pass_at(1)
    site.cancel(unit)
    site.pass_at(2)

    site.cluster.end("g1", exit_code=0)
    site.pass_at(3)

    assert site.status(unit) == "Cancelled"


def test_closed_before_released(site: Site) -> None:
    """Whatever frees the places of a claimed attempt, `close` had answered Closed before (X1)."""
    unit = site.admit("g1", [("n1", (0,))])
    held_when_closed: list[int] = []

    class Watches(SimulatedLauncher):
        def close(self, generations: Any) -> Any:
            held_when_closed.append(site.held(unit))
            return super().close(generations)

    site.dispatcher.close()
    site.dispatcher = site.make_dispatcher("d2", wrap=lambda _: Watches(site.cluster, "p1"))
    site.pass_at(1)
    site.cluster.end("g1")
    site.pass_at(2)

    assert held_when_closed == [1]
    assert site.held() == 0


def test_a_late_launch_of_what_was_closed_is_refused(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.pass_at(1)
    (sent,) = site.sent(unit)
    site.cancel(unit)
    site.pass_at(2)

    (late,) = SimulatedLauncher(site.cluster, "p1").launch([sent])

    assert late.outcome is Outcome.REFUSED
    assert site.live(unit) == 0


def test_refused_dispatches_back_off_longer_each_time_and_fail_in_the_end(site: Site) -> None:
    site.cluster.behave("g1", refuses=True, message="image registry says no")
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))])
    waits = []
    for attempt in range(1, 5):
        site.pass_at(attempt * 1000)
        row = site.unit(unit)
        assert (row.status, row.attempt, row.refused_dispatches) == ("Pending", attempt + 1, attempt)
        assert "image registry says no" in row.message
        assert site.held() == 0
        waits.append((row.backoff_until - site.clock.now()).total_seconds())
        site.admit_again(unit, [("n1", (0,)), ("n2", (0,))])
    assert waits == [30, 60, 120, 240]

    site.pass_at(9000)

    row = site.unit(unit)
    assert (row.status, row.cause, row.restarts_used) == ("Failed", "Infrastructure", 0)
    assert "image registry says no" in row.message
    assert site.held() == 0
    assert site.launched(unit) == 0
    assert sum(r.dispatches for r in site.rows("SELECT dispatches FROM closed_attempts")) == 5
    assert site.events(unit).count("DispatchRefused") == 5


def test_a_refusal_of_one_member_ends_the_others(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))])

    class RefusesTheSecond(SimulatedLauncher):
        def launch(self, members: Any) -> Any:
            results = list(super().launch(members[:1]))
            return [*results, type(results[0])(key=members[1].key, outcome=Outcome.REFUSED, message="full")]

    site.dispatcher.close()
    site.dispatcher = site.make_dispatcher("d2", wrap=lambda _: RefusesTheSecond(site.cluster, "p1"))
    site.pass_at(1)

    assert site.live(unit) == 0
    assert site.status(unit) == "Pending"
    assert site.held() == 0


def test_the_same_key_in_other_places_gets_the_next_attempt(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.pass_at(1)
    (sent,) = site.sent(unit)
    other = MemberLaunch(**{name: getattr(sent, name) for name in sent.__slots__} | {"devices": (5,)})
    (answer,) = SimulatedLauncher(site.cluster, "p1").launch([other])
    assert answer.outcome is Outcome.CONFLICT


def test_an_unreachable_launcher_concludes_nothing(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], time_limit_seconds=200)
    site.pass_at(1)
    site.cluster.set_reachable("p1", is_reachable=False)
    site.pass_at(100)
    site.pass_at(250)
    assert site.status(unit) == "Running"
    assert site.rows("SELECT unreachable_at FROM pools")[0].unreachable_at is not None
    waiting = site.admit("g2", [("n1", (1,))])
    site.pass_at(260)
    assert site.attempt(waiting).dispatch == "Waiting"
    site.restart()
    site.pass_at(280)
    assert site.status(unit) == "Running"

    site.cluster.end("g1")
    site.cluster.set_reachable("p1", is_reachable=True)
    site.pass_at(300)

    assert site.status(unit) == "Succeeded"
    assert site.status(waiting) == "Running"
    assert site.rows("SELECT unreachable_at FROM pools")[0].unreachable_at is None
    kinds = [row.kind for row in site.rows("SELECT kind FROM events WHERE kind LIKE 'Launcher%' ORDER BY id")]
    assert kinds == ["LauncherUnreachable", "LauncherBack"]


def test_a_launcher_that_goes_away_in_mid_launch_is_asked_again(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])

    class GoesAway(SimulatedLauncher):
        has_failed = False

        def launch(self, members: Any) -> Any:
            if not self.has_failed:
                self.has_failed = True
                raise LauncherUnreachable("gone")
            return super().launch(members)

    site.dispatcher.close()
    site.dispatcher = site.make_dispatcher("d2", wrap=lambda _: GoesAway(site.cluster, "p1"))
    site.pass_at(1)

    assert site.status(unit) == "Running"
    assert site.attempt(unit).dispatches == 1
    assert [key.of for key in site.cluster.live_members("g1")] == [GenerationKey(unit.id, 1, 1)]
