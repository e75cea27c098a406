"""Loss of members: start again in place, seat deadline, restarts that are used up, lost nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service.domain.group import OnMemberLoss
from service.operations.member_logs import log_path
from service.store.waiting_units import lock_group_units, release_units
from tests.integration.dispatch.site import Site
from workers.launchers.base import MemberKey, MemberState
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_behaviour import Exit


def test_a_lost_member_restarts_all_in_place(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))])
    site.pass_at(1)

    site.cluster.end("g1", member=1, exit_code=1)
    site.pass_at(10)

    attempt = site.attempt(unit)
    assert site.status(unit) == "Running"
    assert (attempt.attempt, attempt.generation, attempt.dispatches) == (1, 2, 2)
    assert attempt.seat_deadline_at is None
    assert site.unit(unit).restarts_used == 1
    assert [key.generation for key in site.cluster.live_members("g1")] == [2, 2]
    assert site.events(unit)[2:] == ["MemberEnded", "Recovering", "MemberEnded", "Running"]
    codes = site.rows("SELECT member, generation, exit_code FROM member_ends ORDER BY member")
    assert [tuple(row) for row in codes] == [(0, 1, 137), (1, 1, 1)]
    assert site.held(unit) == 2


def test_the_next_generation_waits_until_the_old_one_is_gone(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))], grace_seconds=20)
    site.cluster.behave("g1", exits=Exit.AFTER_GRACE)
    site.pass_at(1)

    site.cluster.end("g1", member=1, exit_code=1)
    site.pass_at(10)
    assert site.status(unit) == "Recovering"
    assert site.launched(unit) == 2
    assert site.attempt(unit).dispatch == "Closing"

    site.restart()
    site.pass_at(29)
    assert site.launched(unit) == 2

    site.pass_at(31)
    assert site.launched(unit) == 4
    assert site.status(unit) == "Running"
    assert site.cluster.records.double_booked == []


def test_seat_deadline_runs_from_the_loss_and_requeues(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))], seat_timeout_seconds=300, backoff_seconds=60)
    site.pass_at(1)
    site.cluster.behave("g1", is_ready=False)
    site.cluster.end("g1", member=1, exit_code=1)
    site.pass_at(1000)
    assert site.status(unit) == "Recovering"
    assert site.attempt(unit).generation == 2

    # A second loss before it runs again does not move the deadline.
    site.cluster.end("g1", member=0, exit_code=1)
    site.pass_at(1200)
    assert site.attempt(unit).generation == 3
    site.pass_at(1299)
    assert site.status(unit) == "Recovering"

    site.pass_at(1301)

    row = site.unit(unit)
    assert (row.status, row.attempt, row.restarts_used) == ("Pending", 2, 2)
    assert (row.backoff_until - site.clock.now()).total_seconds() == 60
    assert row.cause == "UserError"
    assert "exited with code 1" in row.message
    assert site.held() == 0
    assert site.live(unit) == 0
    assert site.events(unit)[-1] == "Requeued"


def test_used_up_restarts_fail_with_member_code_and_log(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))], max_restarts=0, secrets={"TOKEN": "hush-hush"})
    site.pass_at(1)
    log = log_path(site.settings.data, MemberKey(unit.id, 1, 1, 1))
    log.parent.mkdir(parents=True)
    log.write_bytes(b"step 1\nbad token hush-hush\x00\nTraceback: no such file\n")

    site.cluster.end("g1", member=1, exit_code=3)
    site.pass_at(10)

    row = site.unit(unit)
    assert (row.status, row.cause, row.attempt) == ("Failed", "UserError", 1)
    assert "Member 1 exited with code 3 on n2" in row.message
    assert "Traceback: no such file" in row.message
    assert "hush" not in row.message
    assert site.held() == 0
    assert site.live(unit) == 0
    assert site.rows("SELECT outcome, cause FROM closed_attempts")[0] == ("Failed", "UserError")


def test_on_member_loss_fail_ends_the_group_at_the_first_loss(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))], on_member_loss=OnMemberLoss.FAIL, max_restarts=3)
    site.pass_at(1)

    site.cluster.end("g1", member=0, exit_code=1)
    site.pass_at(2)

    assert site.status(unit) == "Failed"
    assert site.unit(unit).restarts_used == 0


def test_a_command_that_cannot_be_executed_fails_at_once(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], command=("simulate", "--cannot-execute"), max_restarts=9)

    site.pass_at(1)

    row = site.unit(unit)
    assert (row.status, row.cause, row.restarts_used) == ("Failed", "UserError", 0)
    assert "cannot be executed" in row.message
    assert site.held() == 0


def test_a_lost_node_counts_no_restart_and_is_waited_for(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))], seat_timeout_seconds=100, max_restarts=0)
    site.pass_at(1)

    site.cluster.node_down("n2")
    site.pass_at(10)
    assert site.status(unit) == "Recovering"
    assert site.launched(unit) == 2
    assert site.live(unit) == 0

    site.cluster.node_up("n2")
    site.pass_at(50)

    row = site.unit(unit)
    assert (row.status, row.attempt, row.restarts_used) == ("Running", 1, 0)
    assert row.failed_nodes == [site.node_ids()["n2"]]
    assert site.attempt(unit).generation == 2
    assert "NodeLost" in site.events(unit)


def test_a_member_that_is_lost_on_a_healthy_node_does_not_lose_the_node(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], max_restarts=0)
    site.pass_at(1)

    class KilledItsSupervisor(SimulatedLauncher):
        def observe(self) -> Any:
            return [
                replace(one, state=MemberState.LOST, detail="its supervisor was killed")
                if one.key.generation == 1
                else one
                for one in super().observe()
            ]

    site.dispatcher.close()
    site.dispatcher = site.make_dispatcher("d2", wrap=lambda _: KilledItsSupervisor(site.cluster, "p1"))
    site.pass_at(2)

    row = site.unit(unit)
    assert (row.status, row.attempt, row.restarts_used) == ("Running", 1, 0)
    assert site.attempt(unit).generation == 2
    [recovering] = site.rows("SELECT data FROM events WHERE kind = 'Recovering'")
    assert recovering.data["message"] == "Member 0 was lost on n1: its supervisor was killed"
    assert "NodeLost" not in site.events(unit)


def test_a_node_that_stays_away_costs_the_attempt_at_the_seat_deadline(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))], seat_timeout_seconds=5)
    site.pass_at(1)
    site.cluster.node_down("n2")
    site.pass_at(100)

    site.pass_at(111)

    row = site.unit(unit)
    assert (row.status, row.attempt, row.cause, row.restarts_used) == ("Pending", 2, "Infrastructure", 0)
    assert site.held() == 0
    lost = site.rows("SELECT data FROM events WHERE kind = 'NodeLost' AND group_id = :id", id=unit.group_id)
    assert [row.data["node"] for row in lost] == ["n2"]


def test_losses_on_three_nodes_put_the_group_on_hold(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.pass_at(1)
    with site.engine.begin() as conn:
        conn.exec_driver_sql(f"UPDATE units SET failed_nodes = '{{9001,9002}}' WHERE id = {unit.id}")

    site.cluster.node_down("n1")
    site.pass_at(2)

    row = site.unit(unit)
    assert (row.status, row.is_held, row.attempt) == ("Pending", True, 2)
    assert "three" in row.message or "3 different nodes" in row.message
    assert site.held() == 0


def test_a_release_forgets_the_nodes_that_led_to_the_hold(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    with site.engine.begin() as conn:
        conn.exec_driver_sql(
            "UPDATE units SET status = 'Pending', is_held = true, failed_nodes = '{9001,9002,9003}'"
        )
        release_units(conn, lock_group_units(conn, unit.group_id), now=site.clock.now())
        conn.exec_driver_sql("UPDATE units SET status = 'Admitted'")
    site.pass_at(1)

    site.cluster.node_down("n1")
    site.pass_at(2)

    row = site.unit(unit)
    assert (row.status, row.is_held, row.failed_nodes) == ("Recovering", False, [site.node_ids()["n1"]])


def test_the_third_loss_in_the_same_places_costs_the_attempt(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], max_restarts=0, backoff_seconds=30)
    site.pass_at(1)
    for second in (10, 20):
        site.cluster.node_down("n1")
        site.pass_at(second)
        site.cluster.node_up("n1")
        site.pass_at(second + 1)
        assert (site.status(unit), site.unit(unit).attempt) == ("Running", 1)

    site.cluster.node_down("n1")
    site.pass_at(30)

    row = site.unit(unit)
    assert (row.status, row.attempt, row.restarts_used, row.cause) == ("Pending", 2, 0, "Infrastructure")
    assert (row.is_held, (row.backoff_until - site.clock.now()).total_seconds()) == (False, 30)


def test_refusals_are_counted_in_a_row(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.cluster.behave("g1", refuses=True, message="no driver")
    site.pass_at(1)
    site.clock.advance(1000)
    site.admit_again(unit, [("n1", (0,))])
    site.pass_at(1002)
    assert site.unit(unit).refused_dispatches == 2

    site.cluster.behave("g1", refuses=False)
    site.clock.advance(1000)
    site.admit_again(unit, [("n1", (0,))])
    site.pass_at(2003)

    assert (site.status(unit), site.unit(unit).refused_dispatches) == ("Running", 0)


def test_a_refusal_is_no_reason_any_more_once_something_else_ended_the_attempt(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.cluster.behave("g1", refuses=True, message="no driver")
    site.pass_at(1)
    site.cluster.behave("g1", refuses=False, is_ready=False)
    site.clock.advance(1000)
    site.admit_again(unit, [("n1", (0,))])
    with site.engine.begin() as conn:
        conn.exec_driver_sql("UPDATE attempts SET start_deadline_at = admitted_at + interval '1 second'")

    site.pass_at(1010)

    row = site.unit(unit)
    assert (row.status, row.attempt, row.refused_dispatches) == ("Pending", 3, 0)
    assert "start timeout" in row.message


def test_a_failure_of_one_independent_member_touches_no_other(site: Site) -> None:
    first = site.admit("a1", [("n1", (0,))], index=0, max_restarts=0)
    site.pass_at(1)

    site.cluster.end("a1", member=0, exit_code=1)
    site.pass_at(2)

    rows = site.rows(
        "SELECT first_index, last_index, status FROM units WHERE group_id = :id ORDER BY id",
        id=first.group_id,
    )
    assert [tuple(row) for row in rows] == [(0, 0, "Failed"), (1, 9, "Pending")]


def test_secrets_stay_while_a_member_of_the_group_still_waits(site: Site) -> None:
    unit = site.admit("a1", [("n1", (0,))], index=0, secrets={"TOKEN": "hush"})
    site.pass_at(1)
    site.cluster.end("a1")
    site.pass_at(2)
    assert site.status(unit) == "Succeeded"
    assert site.rows("SELECT secrets FROM group_specs")[0].secrets is not None
