"""Two dispatchers of one pool, each interleaving by its name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb
from sqlalchemy import text

from service.domain.lifecycle.decisions import Recover
from service.domain.status import Cause
from service.operations.dispatch import Faults, PoolFence, claim_attempts
from service.operations.observe import PassResult, commit_observations
from service.store.dispatcher_lease import LeaseLost
from service.store.engine import make_direct_engine
from service.store.member_ends import MemberEnd
from service.store.work import load_attempts, load_work
from tests.integration.dispatch.site import START, Site
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_behaviour import Exit


class Frozen(BaseException):
    """The process stands still here."""


def test_a_second_dispatcher_stands_by_while_the_first_holds_the_lease(site: Site) -> None:
    other = site.make_dispatcher("d2")
    unit = site.admit("g1", [("n1", (0,))])
    site.clock.advance(1)

    assert other.pass_once() is False
    assert other.epoch is None
    assert site.status(unit) == "Admitted"

    site.pass_at(2)
    assert site.status(unit) == "Running"


def test_a_killed_dispatcher_is_replaced_at_once(site: Site) -> None:
    """Its connection is gone, so nobody waits for the lease to run out."""
    first = site.dispatcher.epoch
    site.dispatcher.close()
    other = site.make_dispatcher("d2")

    other.pass_once()

    assert first is not None
    assert other.epoch == first + 1


def test_an_expired_lease_is_taken_and_the_old_backend_ended(site: Site) -> None:
    other = site.make_dispatcher("d2")
    unit = site.admit("g1", [("n1", (0,))])
    site.clock.advance(11)

    assert other.pass_once()
    assert site.status(unit) == "Running"

    # The first one wakes up: what it knew is refused, and it stands by.
    with pytest.raises(Exception, match=r"terminat|closed"):
        site.dispatcher.pass_once()
    assert site.dispatcher.pass_once() is False


def test_d1_a_frozen_dispatcher_writes_nothing(site: Site) -> None:
    """It had read its state, was frozen, and another one took the pool."""
    unit = site.admit("g1", [("n1", (0,))])
    fence = _fence_of(site)
    waiting = load_attempts(fence.conn, fence.pool_id, now=site.clock.now())
    assert [attempt.unit_id for attempt in waiting] == [unit.id]
    with site.engine.begin() as conn:
        conn.execute(text("UPDATE dispatcher_leases SET epoch = epoch + 1"))

    with pytest.raises(LeaseLost):
        claim_attempts(fence, waiting, now=site.clock.now())
    with pytest.raises(LeaseLost):
        commit_observations(fence, PassResult(launched=[(unit.id, 1, 1)]), now=site.clock.now())
    assert site.attempt(unit).dispatch == "Waiting"
    fence.conn.close()


def test_d1_a_pass_that_lost_the_lease_forgets_everything(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.pass_at(1)
    with site.engine.begin() as conn:
        conn.execute(text("UPDATE dispatcher_leases SET epoch = epoch + 1, backend_pid = NULL"))
        conn.execute(
            text("UPDATE dispatcher_expiries SET epoch = epoch + 1, expires_at = :at"),
            {"at": START + timedelta(seconds=100)},
        )
    site.cluster.end("g1")

    assert site.dispatcher.pass_once() is False
    assert site.dispatcher.epoch is None
    assert site.status(unit) == "Running"


def test_d2_an_old_observation_does_not_restart_a_healthy_group(site: Site) -> None:
    """The frozen one had seen all of generation 1 lost; generation 2 runs by now."""
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))])
    site.pass_at(1)
    fence = _fence_of(site)
    (seen,) = load_attempts(fence.conn, fence.pool_id, now=site.clock.now())
    site.cluster.end("g1", member=0, exit_code=1)
    site.pass_at(10)
    assert site.attempt(unit).generation == 2
    events = site.events(unit)

    old = PassResult(
        decided=[
            (
                seen,
                Recover(cause=Cause.INFRASTRUCTURE, message="all lost", seat_deadline_at=site.clock.now()),
            )
        ]
    )
    recorded = commit_observations(fence, old, now=site.clock.now())

    assert recorded.outdated == {unit.id}
    assert site.status(unit) == "Running"
    assert site.attempt(unit).generation == 2
    assert site.events(unit) == events
    fence.conn.close()


def test_d2_a_cancel_that_came_between_look_and_record_wins(site: Site) -> None:
    """The pass has seen the end of g1 and read its row, and starts g2 before it records what follows."""
    unit = site.admit("g1", [("n1", (0,))])
    site.pass_at(1)

    class CancelsWhileItLaunches(SimulatedLauncher):
        cancelled_in: Any = None

        def launch(self, members: Any) -> Any:
            if self.cancelled_in is None:
                site.cancel(unit)
                self.cancelled_in = site.attempt(unit)
            return super().launch(members)

    launcher = CancelsWhileItLaunches(site.cluster, "p1")
    site.dispatcher.close()
    site.dispatcher = site.make_dispatcher("d2", wrap=lambda _: launcher)
    site.cluster.end("g1", exit_code=1)
    other = site.admit("g2", [("n1", (1,))])
    site.pass_at(2)

    # Nobody had decided anything of generation 1 until then.
    assert (launcher.cancelled_in.generation, launcher.cancelled_in.evict_cause) == (1, "Cancelled")
    assert site.status(other) == "Running"
    assert site.status(unit) == "Cancelled"
    assert site.events(unit).count("MemberEnded") == 1
    assert "Recovering" not in site.events(unit)


def test_an_end_counts_once_whoever_reports_it(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n1", (1,))])
    site.pass_at(1)
    fence = _fence_of(site)
    end = MemberEnd(unit_id=unit.id, attempt=1, generation=1, member=0, exit_code=0, ended_at=START)

    for _ in range(3):
        commit_observations(fence, PassResult(ends=[end]), now=site.clock.now())

    assert site.events(unit).count("MemberEnded") == 1
    fence.conn.close()


def test_a_dispatcher_killed_after_its_claim_costs_nothing(site: Site) -> None:
    """The next one claims again; that the launch may have happened does not matter."""
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))])

    class FreezesAfterLaunch(SimulatedLauncher):
        def launch(self, members: Any) -> Any:
            super().launch(members)
            raise Frozen

    site.dispatcher.close()
    killed = site.make_dispatcher("d2", wrap=lambda _: FreezesAfterLaunch(site.cluster, "p1"))
    with pytest.raises(Frozen):
        killed.pass_once()
    killed.close()
    assert site.attempt(unit).dispatch == "Claimed"

    site.dispatcher = site.make_dispatcher("d3")
    site.pass_at(5)

    assert site.status(unit) == "Running"
    assert site.launched(unit) == 2
    assert site.attempt(unit).dispatches == 1


def test_what_can_be_started_is_found_however_much_else_waits(site: Site) -> None:
    units = [site.admit(f"g{n}", [("n1", (n,)), ("n2", (n,))]) for n in range(5)]
    down, lost = site.node_ids()["n1"], (site.node_ids()["n2"], 1)
    fence = _fence_of(site)

    def startable(faults: Faults, *, most: int | None) -> list[int]:
        work = load_work(fence.conn, fence.pool_id, now=START, changed=(), most_waiting=most)
        return [attempt.unit_id for attempt in work if faults.is_startable(attempt)]

    ids = [unit.id for unit in units]
    assert startable(Faults(), most=3) == ids[:3]
    assert startable(Faults(lost_devices=frozenset([lost])), most=None) == [ids[0], *ids[2:]]
    assert startable(Faults(down_nodes=frozenset([down])), most=None) == []
    fence.conn.close()


def test_what_was_evicted_after_it_was_read_is_not_claimed(site: Site) -> None:
    """X1: nobody had claimed it, so its end was a compare-and-set, and its places may be another's."""
    units = [site.admit(f"g{n}", [("n1", (n,))]) for n in range(2)]
    fence = _fence_of(site)
    waiting = load_attempts(fence.conn, fence.pool_id, now=START)
    site.cancel(units[0])

    claimed = claim_attempts(fence, waiting, now=START)

    assert [one.attempt.unit_id for one in claimed] == [units[1].id]
    assert site.attempt(units[0]).dispatch == "Waiting"
    fence.conn.close()


def test_t1_what_the_books_do_not_hold_is_closed_at_the_start(site: Site) -> None:
    """A restored dump says Pending while attempt 1 runs."""
    unit = site.admit("g1", [("n1", (0,)), ("n2", (3,))])
    site.pass_at(1)
    site.dispatcher.close()
    with site.engine.begin() as conn:
        conn.execute(text("DELETE FROM attempts"))
        conn.execute(text("UPDATE units SET status = 'Pending', admitted_at = NULL"))

    site.dispatcher = site.make_dispatcher("d2")
    site.pass_at(2)

    assert site.live(unit) == 0
    assert site.rows("SELECT device FROM devices WHERE lost_at IS NOT NULL") == []
    (late,) = SimulatedLauncher(site.cluster, "p1").launch(site.sent(unit)[:1])
    assert late.outcome == "Refused"


def test_t1_what_cannot_be_ended_makes_its_devices_lost_until_it_is_gone(site: Site) -> None:
    site.cluster.behave("g1", exits=Exit.WHEN_TOLD)
    site.admit("g1", [("n1", (0,)), ("n2", (3,))])
    site.pass_at(1)
    site.dispatcher.close()
    with site.engine.begin() as conn:
        conn.execute(text("DELETE FROM attempts"))
        conn.execute(text("UPDATE units SET status = 'Pending', admitted_at = NULL"))
    site.dispatcher = site.make_dispatcher("d2")

    site.pass_at(2)
    assert len(site.rows("SELECT device FROM devices WHERE lost_at IS NOT NULL")) == 2

    # Whoever gets these places is not started on them.
    other = site.admit("g2", [("n1", (0,))])
    site.pass_at(3)
    assert site.launched(other) == 0
    assert site.status(other) == "Pending"

    site.cluster.end("g1")
    site.pass_at(10)
    assert site.rows("SELECT device FROM devices WHERE lost_at IS NOT NULL") == []


def test_t1_x7_what_runs_in_other_places_gets_its_next_attempt(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.pass_at(1)
    site.dispatcher.close()
    node = site.node_ids()["n2"]
    with site.engine.begin() as conn:
        conn.execute(text("UPDATE attempts SET places = :places"), {"places": Jsonb([[0, 0, node, [7]]])})
        conn.execute(text("UPDATE held_devices SET node_id = :n, device = 7"), {"n": node})

    site.dispatcher = site.make_dispatcher("d2")
    site.pass_at(2)
    site.pass_at(4)

    row = site.unit(unit)
    assert (row.status, row.attempt, row.restarts_used) == ("Pending", 2, 0)
    assert site.live(unit) == 0
    assert site.rows("SELECT device FROM devices WHERE lost_at IS NOT NULL") == []


def test_a_member_that_the_launcher_does_not_know_any_more_is_lost(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], max_restarts=0)
    site.pass_at(1)
    site.dispatcher.close()

    class Forgets(SimulatedLauncher):
        def observe(self) -> Any:
            return [seen for seen in super().observe() if seen.key.generation > 1]

    site.dispatcher = site.make_dispatcher("d2", wrap=lambda _: Forgets(site.cluster, "p1"))
    site.pass_at(5)

    row = site.unit(unit)
    assert (row.status, row.restarts_used) == ("Running", 0)
    assert site.attempt(unit).generation == 2


def _fence_of(site: Site) -> PoolFence:
    """Another connection with the same epoch: as if the dispatcher had gone on from here."""
    url = site.engine.url.render_as_string(hide_password=False)
    assert site.dispatcher.pool_id is not None
    assert site.dispatcher.epoch is not None
    return PoolFence(make_direct_engine(url).connect(), site.dispatcher.pool_id, site.dispatcher.epoch)
