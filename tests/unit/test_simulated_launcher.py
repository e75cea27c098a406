"""The simulated launcher beyond the contract: its clock, its switches, its journal and its records."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service.clock import SystemClock, VirtualClock
from workers.launchers.base import (
    DeviceReport,
    GenerationKey,
    LauncherUnreachable,
    MemberKey,
    MemberLaunch,
    MemberState,
    NodeReport,
    Outcome,
)
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_behaviour import Exit
from workers.launchers.simulated_cluster import SimulatedCluster
from workers.launchers.simulated_program import CannotExecute, Program, program_of

START = datetime(2030, 1, 1, tzinfo=UTC)
NODES = {
    "p1": [
        NodeReport(
            name=name,
            cpus_milli=8000,
            memory_mib=1024,
            labels={},
            devices=tuple(DeviceReport(index=i, model="mx", memory_mib=1) for i in range(4)),
        )
        for name in ("n1", "n2")
    ]
}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def cluster(clock: VirtualClock) -> SimulatedCluster:
    return SimulatedCluster(NODES, clock)


@pytest.fixture
def launcher(cluster: SimulatedCluster) -> SimulatedLauncher:
    return SimulatedLauncher(cluster, "p1")


def member(
    number: int = 0,
    *,
    unit: int = 7,
    generation: int = 1,
    group: str = "g1",
    node: str = "n1",
    command: tuple[str, ...] = ("train",),
    at: datetime = START,
) -> MemberLaunch:
    return MemberLaunch(
        key=MemberKey(unit, 1, generation, number),
        group_name=group,
        role="worker",
        node=node,
        devices=(number,),
        cpus_milli=1000,
        memory_mib=1,
        command=command,
        workdir=None,
        image=None,
        env={},
        secrets={},
        rank=number,
        world_size=1,
        local_rank=0,
        member_count=1,
        claimed_at=at,
    )


@pytest.mark.parametrize(
    ("command", "env", "program"),
    [
        (("train.py",), {}, Program(None, 0)),
        (("simulate",), {}, Program(None, 0)),
        (("simulate", "--seconds", "0.5"), {}, Program(0.5, 0)),
        (("simulate", "--exit-code", "3", "--seconds", "2"), {}, Program(2.0, 3)),
        (("train.py",), {"MUSTER_SIM_SECONDS": "9"}, Program(9.0, 0)),
        (("train.py",), {"MUSTER_SIM_SECONDS": "9", "MUSTER_SIM_EXIT_CODE": "4"}, Program(9.0, 4)),
        (("simulate", "--seconds", "1"), {"MUSTER_SIM_SECONDS": "9"}, Program(1.0, 0)),
        (("simulate", "--seconds", "-1"), {}, Program(0.0, 0)),
        (("simulate", "--seconds", "soon"), {}, Program(0.0, 2)),
        (("simulate", "--exit-code", "x"), {}, Program(0.0, 2)),
        (("simulate", "--stop-seconds", "2"), {}, Program(None, 0, 2.0)),
        (("simulate", "--stop-seconds", "later"), {}, Program(0.0, 2)),
        ((), {}, Program(None, 0)),
    ],
)
def test_program(command: tuple[str, ...], env: dict[str, str], program: Program) -> None:
    assert program_of(command, env) == program


def test_a_command_may_say_that_it_cannot_be_executed() -> None:
    with pytest.raises(CannotExecute):
        program_of(("simulate", "--cannot-execute"), {})


def test_a_member_ends_at_its_instant_whenever_somebody_looks(
    launcher: SimulatedLauncher, clock: VirtualClock
) -> None:
    launcher.launch([member(command=("simulate", "--seconds", "5", "--exit-code", "3"))])
    clock.advance(4.9)
    assert launcher.observe()[0].state is MemberState.READY
    clock.advance(100)
    [seen] = launcher.observe()
    assert (seen.state, seen.exit_code, seen.ended_at) == (MemberState.ENDED, 3, START + timedelta(seconds=5))


def test_a_stubborn_member_lives_until_its_grace_is_over(
    launcher: SimulatedLauncher, cluster: SimulatedCluster, clock: VirtualClock
) -> None:
    cluster.behave("g1", exits=Exit.AFTER_GRACE)
    launcher.launch([member()])
    launcher.terminate([member().key], grace_seconds=20)
    clock.advance(10)
    launcher.terminate([member().key], grace_seconds=20)
    clock.advance(9.9)
    assert launcher.observe()[0].state is MemberState.READY
    clock.advance(0.1)
    [seen] = launcher.observe()
    assert (seen.exit_code, seen.was_told_to_stop) == (137, True)
    assert seen.ended_at == START + timedelta(seconds=20)


@pytest.mark.parametrize(("grace", "code", "seconds"), [(20, 143, 5), (3, 137, 3)])
def test_a_member_takes_its_time_to_stop_within_its_grace(
    launcher: SimulatedLauncher, clock: VirtualClock, grace: int, code: int, seconds: int
) -> None:
    launcher.launch([member(command=("simulate", "--stop-seconds", "5"))])
    launcher.terminate([member().key], grace_seconds=grace)
    assert launcher.observe()[0].state is MemberState.READY
    clock.advance(100)
    [seen] = launcher.observe()
    assert (seen.exit_code, seen.ended_at) == (code, START + timedelta(seconds=seconds))


def test_one_that_cannot_be_killed_survives_close_until_it_ends(
    launcher: SimulatedLauncher, cluster: SimulatedCluster
) -> None:
    cluster.behave("g1", exits=Exit.WHEN_TOLD)
    launcher.launch([member()])
    [answer] = launcher.close([member().key.of])
    assert (answer.is_closed, answer.survivors) == (False, (member().key,))
    cluster.end("g1")
    assert launcher.close([member().key.of])[0].is_closed


def test_ready_never_and_then_at_last(launcher: SimulatedLauncher, cluster: SimulatedCluster) -> None:
    launcher.launch([member(0)])
    cluster.behave("g1", is_ready=False)
    launcher.launch([member(1)])
    assert [seen.state for seen in launcher.observe()] == [MemberState.READY, MemberState.STARTING]
    cluster.behave("g1", is_ready=True)
    assert [seen.state for seen in launcher.observe()] == [MemberState.READY] * 2


def test_a_refused_group_is_refused_with_its_message(
    launcher: SimulatedLauncher, cluster: SimulatedCluster
) -> None:
    cluster.behave("g1", refuses=True, message="no image")
    mine, other = launcher.launch([member(0), member(1, unit=8, group="g2")])
    assert (mine.outcome, mine.message) == (Outcome.REFUSED, "no image")
    assert other.outcome is Outcome.STARTED
    cluster.behave("g1", refuses=False)
    assert launcher.launch([member(0)])[0].outcome is Outcome.STARTED


def test_a_node_that_goes_down_loses_its_members_and_boots_anew(
    launcher: SimulatedLauncher, cluster: SimulatedCluster
) -> None:
    launcher.launch([member(0, node="n1"), member(1, node="n2")])
    boots = [node.boot_id for node in launcher.inventory()]
    cluster.node_down("n2")
    assert [node.is_ready for node in launcher.inventory()] == [True, False]
    states = {seen.node: (seen.state, seen.exit_code) for seen in launcher.observe()}
    assert states == {"n1": (MemberState.READY, None), "n2": (MemberState.LOST, None)}
    assert launcher.launch([member(2, unit=9, node="n2")])[0].outcome is Outcome.REFUSED
    cluster.node_up("n2")
    after = launcher.inventory()
    assert after[1].is_ready
    assert [node.boot_id == old for node, old in zip(after, boots, strict=True)] == [True, False]


def test_out_of_reach_every_call_fails_and_members_live_on(
    launcher: SimulatedLauncher, cluster: SimulatedCluster, clock: VirtualClock
) -> None:
    launcher.launch([member(command=("simulate", "--seconds", "5"))])
    cluster.set_reachable("p1", is_reachable=False)
    for call in (
        launcher.inventory,
        launcher.observe,
        lambda: launcher.launch([member(1)]),
        lambda: launcher.terminate([member().key], grace_seconds=0),
        lambda: launcher.close([member().key.of]),
        lambda: launcher.forget([member().key.of]),
    ):
        with pytest.raises(LauncherUnreachable):
            call()
    clock.advance(9)
    cluster.set_reachable("p1", is_reachable=True)
    [seen] = launcher.observe()
    assert (seen.exit_code, seen.ended_at) == (0, START + timedelta(seconds=5))


def test_a_forgotten_end_can_be_reported_again(
    launcher: SimulatedLauncher, cluster: SimulatedCluster
) -> None:
    launcher.launch([member()])
    ended = cluster.end("g1", exit_code=4)
    launcher.close([member().key.of])
    launcher.forget([member().key.of])
    assert launcher.observe() == []
    cluster.report_again(ended)
    assert [seen.exit_code for seen in launcher.observe()] == [4]
    assert cluster.records.launched_members("g1") == 1


def test_the_journal_outlives_the_process(tmp_path: Path, clock: VirtualClock) -> None:
    def opened() -> SimulatedLauncher:
        cluster = SimulatedCluster(NODES, clock, journal=tmp_path / "s.sqlite")
        return SimulatedLauncher(cluster, "p1", owns_cluster=True)

    first = opened()
    first.launch([member(0, command=("simulate", "--seconds", "5")), member(1), member(2, unit=8)])
    first.terminate([member(1).key], grace_seconds=0)
    first.close([GenerationKey(8, 1, 1)])
    first.forget([GenerationKey(8, 1, 1)])
    first.stop()
    clock.advance(9)

    again = opened()

    seen = {one.key.member: (one.exit_code, one.was_told_to_stop) for one in again.observe()}
    assert seen == {0: (0, False), 1: (143, True)}
    assert again.launch([member(2, unit=8, at=clock.now())])[0].outcome is Outcome.REFUSED
    assert again.launch([member(0)])[0].outcome is Outcome.STARTED
    assert again.launch([member(0, node="n2")])[0].outcome is Outcome.CONFLICT
    again.stop()


def test_tombstones_live_seven_days(tmp_path: Path, clock: VirtualClock) -> None:
    def outcome() -> Outcome:
        cluster = SimulatedCluster(NODES, clock, journal=tmp_path / "s.sqlite")
        launcher = SimulatedLauncher(cluster, "p1", owns_cluster=True)
        [result] = launcher.launch([member(at=clock.now())])
        if result.outcome is Outcome.STARTED:
            launcher.close([GenerationKey(7, 1, 1)])
            launcher.forget([GenerationKey(7, 1, 1)])
        launcher.stop()
        return result.outcome

    assert outcome() is Outcome.STARTED
    clock.advance(6.9 * 86400)
    assert outcome() is Outcome.REFUSED
    clock.advance(0.2 * 86400)
    assert outcome() is Outcome.STARTED


def test_records_count_and_order_what_happened(
    launcher: SimulatedLauncher, cluster: SimulatedCluster
) -> None:
    launcher.launch([member(0), member(1)])
    mark = cluster.records.mark()
    cluster.end("g1", member=0)
    launcher.terminate([member(1).key], grace_seconds=0)
    launcher.launch([member(0, unit=8, group="g2")])

    records = cluster.records
    assert records.launched_members() == 3
    assert records.launched_members("g1") == 2
    assert records.launched_members(since=mark) == 1
    assert records.stopped_members() == records.stopped_members("g1") == 1
    assert records.peak_live_gpus("n1") == 2
    assert records.peak_live_gpus("n1", since=mark) == 2
    assert records.peak_live_gpus("n1", since=records.mark()) == 1
    assert max(one.order for one in records.gone) < records.starts[-1].order
    assert records.double_booked == []
    launcher.launch([member(0, unit=9, group="g3")])
    assert records.double_booked == [(MemberKey(8, 1, 1, 0), MemberKey(9, 1, 1, 0))]


def test_a_timer_tells_when_a_member_ends_by_the_clock() -> None:
    clock = SystemClock()
    cluster = SimulatedCluster(NODES, clock)
    launcher = SimulatedLauncher(cluster, "p1", has_timer=True)
    woken = threading.Event()
    launcher.on_change(woken.set)
    launcher.launch([member(command=("simulate", "--seconds", "0.2"), at=clock.now())])
    assert woken.wait(5)
    assert launcher.observe()[0].state is MemberState.ENDED
    launcher.stop()
    assert not any(thread.name == "simulated-timer" for thread in threading.enumerate())
