"""Deadlines: start, time limit with grace, drain, kill patience. All of them outlive a restart."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from service.operations.deadlines import evict_drained
from service.operations.dispatch import PoolFence
from tests.integration.dispatch.locks import wait_for_lock
from tests.integration.dispatch.site import START, Site, Unit
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_behaviour import Exit


def drain(site: Site, node: str, *, at: float) -> None:
    with site.engine.begin() as conn:
        conn.execute(
            text("UPDATE nodes SET is_cordoned = true, drain_at = :at WHERE name = :name"),
            {"at": START + timedelta(seconds=at), "name": node},
        )


def test_start_timeout_runs_from_admission_and_counts_a_restart(site: Site) -> None:
    site.cluster.behave("g1", is_ready=False)
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))], start_timeout_seconds=100, backoff_seconds=30)
    site.pass_at(50)
    assert site.status(unit) == "Starting"

    site.restart()
    site.pass_at(101)

    row = site.unit(unit)
    assert (row.status, row.attempt, row.restarts_used, row.cause) == ("Pending", 2, 1, "UserError")
    assert (row.backoff_until - site.clock.now()).total_seconds() == 30
    assert site.held() == 0
    assert site.live(unit) == 0


def test_start_timeout_with_restarts_used_up_fails(site: Site) -> None:
    site.cluster.behave("g1", is_ready=False)
    unit = site.admit("g1", [("n1", (0,))], start_timeout_seconds=100, max_restarts=0)

    site.pass_at(1)
    site.pass_at(101)

    assert site.status(unit) == "Failed"


def test_start_timeout_goes_on_over_a_start_in_place(site: Site) -> None:
    site.cluster.behave("g1", is_ready=False)
    unit = site.admit("g1", [("n1", (0,))], start_timeout_seconds=100, seat_timeout_seconds=1000)
    site.pass_at(1)
    site.cluster.end("g1", exit_code=1)
    site.pass_at(2)
    assert (site.status(unit), site.live(unit)) == ("Recovering", 1)

    site.pass_at(101)

    row = site.unit(unit)
    assert (row.status, row.attempt, row.restarts_used) == ("Pending", 2, 2)
    assert "start timeout" in row.message


def test_start_timeout_of_what_the_launcher_never_had_is_the_platforms(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], start_timeout_seconds=100, max_restarts=0)
    site.cluster.set_reachable("p1", is_reachable=False)
    site.pass_at(1)

    site.pass_at(101)

    row = site.unit(unit)
    assert (row.status, row.cause, row.restarts_used) == ("Pending", "Infrastructure", 0)
    assert site.held() == 0


def test_a_unit_that_runs_has_no_start_deadline(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], start_timeout_seconds=100)
    site.pass_at(1)
    site.pass_at(500)
    assert site.status(unit) == "Running"
    assert site.attempt(unit).start_deadline_at is None


def test_time_limit_tells_waits_and_kills(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))], time_limit_seconds=100, grace_seconds=20)
    site.cluster.behave("g1", exits=Exit.AFTER_GRACE)
    site.pass_at(1)

    site.pass_at(101)
    assert site.status(unit) == "Evicting"
    assert site.live(unit) == 2
    assert site.held(unit) == 2

    # The grace goes on over a restart of the dispatcher.
    site.restart()
    site.pass_at(119)
    assert site.live(unit) == 2
    assert site.status(unit) == "Evicting"

    site.pass_at(121)
    row = site.unit(unit)
    assert (row.status, row.cause, row.attempt) == ("Failed", "TimeLimit", 1)
    assert site.held() == 0
    assert site.launched(unit) == 2


def test_what_ended_well_before_its_limit_was_looked_at_succeeded(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], time_limit_seconds=100)
    site.pass_at(1)
    site.clock.move_to(START + timedelta(seconds=90))
    site.cluster.end("g1")

    site.pass_at(500)

    assert site.status(unit) == "Succeeded"
    assert site.unit(unit).ended_at == START + timedelta(seconds=90)


def test_time_limit_ends_a_start_in_place_too(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], time_limit_seconds=100, seat_timeout_seconds=1000)
    site.pass_at(1)
    site.cluster.behave("g1", is_ready=False)
    site.cluster.end("g1", exit_code=1)
    site.pass_at(50)
    assert site.status(unit) == "Recovering"

    site.pass_at(100)

    assert (site.status(unit), site.unit(unit).cause) == ("Failed", "TimeLimit")


def test_drain_evicts_gangs_whole_and_members_alone(site: Site) -> None:
    gang = site.admit("g1", [("n1", (0,)), ("n2", (0,))], max_restarts=0, backoff_seconds=60)
    on_n2 = site.admit("a1", [("n2", (1,))], index=0, max_restarts=0)
    on_n1 = site.admit("a2", [("n1", (1,))], index=0)
    without_gpus = site.admit("c1", [("n2", ())], max_restarts=0)
    site.pass_at(1)

    drain(site, "n2", at=80)
    site.pass_at(79)
    assert [site.status(unit) for unit in (gang, on_n2, on_n1, without_gpus)] == ["Running"] * 4

    site.pass_at(82)

    def state(unit: Unit) -> tuple[str, int, int]:
        row = site.unit(unit)
        return (row.status, row.attempt, row.restarts_used)

    assert [state(unit) for unit in (gang, on_n2, without_gpus)] == [("Pending", 2, 0)] * 3
    assert state(on_n1) == ("Running", 1, 0)
    assert site.unit(gang).backoff_until is None
    assert site.held() == 1
    assert site.cluster.records.stopped_members("g1") == 2
    before = site.rows("SELECT max(id) FROM events")
    site.pass_at(90)
    assert site.rows("SELECT max(id) FROM events") == before


def test_a_drain_of_several_nodes_locks_groups_in_the_order_of_their_ids(site: Site) -> None:
    """W4 within one transaction, whichever node a unit is on."""
    seats = ["n1", "n2", "n1"]
    units = [site.admit(f"g{n}", [(name, (n,))], index=0) for n, name in enumerate(seats)]
    site.pass_at(1)
    for name in ("n1", "n2"):
        drain(site, name, at=2)
    pool_id, epoch = site.dispatcher.pool_id, site.dispatcher.epoch
    assert pool_id is not None
    assert epoch is not None
    with site.engine.connect() as own, site.engine.connect() as other, ThreadPoolExecutor(1) as pool:
        pid = own.execute(text("SELECT pg_backend_pid()")).scalar_one()
        own.rollback()
        lock = text("SELECT id FROM groups WHERE id = :id FOR NO KEY UPDATE")
        with other.begin():
            other.execute(lock, {"id": units[1].group_id})
            fence = PoolFence(own, pool_id, epoch)
            drained = pool.submit(evict_drained, fence, now=START + timedelta(seconds=3))
            wait_for_lock(site, pid)
            other.execute(text("SET LOCAL lock_timeout = '1s'"))
            other.execute(lock, {"id": units[2].group_id})
        assert set(drained.result(timeout=30).unit_ids) == {unit.id for unit in units}


def test_what_survives_sigkill_loses_its_devices_and_frees_the_group(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))])
    site.cluster.behave("g1", exits=Exit.WHEN_TOLD)
    site.pass_at(1)
    version = site.config_version()

    site.cancel(unit)
    site.pass_at(10)
    assert site.status(unit) == "Evicting"
    site.pass_at(60)
    assert site.held(unit) == 2

    site.pass_at(61)

    assert site.status(unit) == "Cancelled"
    assert site.held() == 0
    lost = site.rows("SELECT node_id, device, lost_note, lost_boot_id FROM devices WHERE lost_at IS NOT NULL")
    names = site.node_ids()
    assert sorted(tuple(row) for row in lost) == sorted(
        (names[name], 0, f"{unit.id}/1/1", f"{name}-1") for name in ("n1", "n2")
    )
    assert site.config_version() > version

    # One is gone at last and its `close` is answered; the other machine boots anew.
    site.cluster.end("g1", exit_code=9)
    site.pass_at(80)
    assert site.rows("SELECT device FROM devices WHERE lost_at IS NOT NULL") == []
    kinds = [row.kind for row in site.rows("SELECT kind FROM events WHERE kind LIKE 'Device%' ORDER BY id")]
    assert kinds == ["DeviceLost"] * 2 + ["DeviceFound"] * 2


def test_another_boot_finds_lost_devices(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.cluster.behave("g1", exits=Exit.WHEN_TOLD)
    site.pass_at(1)
    site.cancel(unit)
    site.pass_at(2)
    site.pass_at(70)
    assert len(site.rows("SELECT device FROM devices WHERE lost_at IS NOT NULL")) == 1

    site.cluster.node_down("n1")
    site.cluster.node_up("n1")
    site.pass_at(80)

    assert site.rows("SELECT device FROM devices WHERE lost_at IS NOT NULL") == []


def test_a_restart_in_place_that_cannot_end_the_old_members_leaves(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))], seat_timeout_seconds=10_000)
    site.cluster.behave("g1", exits=Exit.WHEN_TOLD)
    site.pass_at(1)
    site.cluster.end("g1", member=0, exit_code=1)
    site.pass_at(10)
    assert site.status(unit) == "Recovering"

    site.pass_at(71)

    assert site.status(unit) == "Pending"
    assert site.unit(unit).attempt == 2
    assert len(site.rows("SELECT device FROM devices WHERE lost_at IS NOT NULL")) == 1


def test_what_falls_due_during_a_pass_is_looked_at_at_once(site: Site) -> None:
    """Else nobody would look before the safety net does."""
    unit = site.admit("g1", [("n1", (0,))], time_limit_seconds=100)
    site.pass_at(1)

    class Slow(SimulatedLauncher):
        def observe(self) -> Any:
            if site.clock.now() == START + timedelta(seconds=99):
                site.clock.advance(2)
            return super().observe()

    site.dispatcher.close()
    site.dispatcher = site.make_dispatcher("d3", wrap=lambda _: Slow(site.cluster, "p1"))
    site.pass_at(98.5)
    site.pass_at(99)

    assert site.status(unit) == "Running"
    assert site.dispatcher.next_due_at() == START + timedelta(seconds=100)
    site.dispatcher.pass_once()
    assert site.status(unit) == "Failed"


def test_the_next_deadline_is_the_earliest(site: Site) -> None:
    site.admit("g1", [("n1", (0,))], time_limit_seconds=100)
    site.admit("g2", [("n1", (1,))], time_limit_seconds=70)
    site.pass_at(1)
    assert site.dispatcher.next_due_at() == START + timedelta(seconds=70)
    drain(site, "n2", at=40)
    assert site.dispatcher.next_due_at() == START + timedelta(seconds=40)


def test_a_pass_that_finds_more_and_more_ends_and_goes_on_at_once(site: Site) -> None:
    """It fails, and starts again in place, and fails. A pass that took it all would last for ever, and who
    holds the lease for so long in one pass counts as hung."""
    command = ("simulate", "--seconds", "0", "--exit-code", "1")
    unit = site.admit("g0", [("n1", (0,))], command=command, max_restarts=100)

    class TakesASecond(SimulatedLauncher):
        def launch(self, members: Any) -> Any:
            site.clock.advance(1)
            return super().launch(members)

    site.dispatcher.close()
    site.dispatcher = site.make_dispatcher("d2", wrap=lambda _: TakesASecond(site.cluster, "p1"))

    site.pass_at(1)

    assert START + timedelta(seconds=3) <= site.clock.now() <= START + timedelta(seconds=5)
    assert site.status(unit) != "Failed"
    assert site.dispatcher.next_due_at() == site.clock.now()
