"""What the launcher protocol promises, held against every launcher."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from service.clock import SystemClock
from tests.contract.subjects import (
    LIVE,
    SUBJECTS,
    Subject,
    close_surely,
    find,
    member,
    wait_for_end,
    wait_until,
)
from workers.launchers.base import (
    GenerationKey,
    MemberClosing,
    MemberKey,
    MemberState,
    Outcome,
    ResizingLauncher,
)

UNIT = 7 << 20


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    # Not tmp_path: it leaves no room for the name of a socket.
    with tempfile.TemporaryDirectory(prefix="muster-test-", dir="/tmp") as folder:
        made = SUBJECTS[request.param](Path(folder))
        try:
            yield made
        finally:
            made.stop()


def test_it_names_its_kind_and_its_nodes(subject: Subject) -> None:
    assert subject.launcher.capabilities().kind
    nodes = subject.launcher.inventory()
    assert [node.name for node in nodes] == ["node-1", "node-2"]
    assert all(node.boot_id and node.is_ready and len(node.devices) == 8 for node in nodes)


def test_empty_lists_are_answered_with_empty_lists(subject: Subject) -> None:
    subject.launcher.terminate([], grace_seconds=1)
    subject.launcher.forget([])
    assert list(subject.launcher.launch([])) == []
    assert list(subject.launcher.close([])) == []
    assert list(subject.launcher.observe()) == []


def test_a_started_member_is_observed_where_it_was_put(subject: Subject) -> None:
    launch = member(subject.run(), node="node-2", devices=(3, 5))
    [result] = subject.launcher.launch([launch])
    assert (result.key, result.outcome) == (launch.key, Outcome.STARTED)
    [seen] = subject.launcher.observe()
    assert (seen.key, seen.node, seen.devices) == (launch.key, "node-2", (3, 5))
    assert seen.state in LIVE
    assert seen.exit_code is None
    assert seen.ended_at is None


def test_results_come_in_the_order_of_the_members(subject: Subject) -> None:
    launches = [
        member(subject.run(), unit_id=UNIT, member=2),
        member(subject.fail(), unit_id=UNIT, member=0),
        member(subject.run(), unit_id=UNIT, member=1, node="elsewhere"),
    ]
    results = subject.launcher.launch(launches)
    assert [result.key.member for result in results] == [2, 0, 1]
    assert [result.outcome for result in results] == [
        Outcome.STARTED,
        Outcome.CANNOT_EXECUTE,
        Outcome.REFUSED,
    ]
    assert results[1].message
    assert results[2].message


def test_a_repeated_launch_starts_nothing(subject: Subject) -> None:
    launch = member(subject.run())
    for _ in range(3):
        assert [result.outcome for result in subject.launcher.launch([launch])] == [Outcome.STARTED]
    assert len(subject.launcher.observe()) == 1


def test_a_launch_repeated_after_the_end_starts_nothing(subject: Subject) -> None:
    launch = member(subject.end_with(4))
    subject.launcher.launch([launch])
    ended = wait_for_end(subject.launcher, launch.key)
    assert [result.outcome for result in subject.launcher.launch([launch])] == [Outcome.STARTED]
    assert find(subject.launcher, launch.key) == ended


@pytest.mark.parametrize("other", [{"node": "node-2"}, {"devices": (1,)}])
def test_the_same_key_with_other_places_is_a_conflict(subject: Subject, other: dict[str, object]) -> None:
    launch = member(subject.run())
    subject.launcher.launch([launch])
    [result] = subject.launcher.launch([replace(launch, **other)])  # type: ignore[arg-type]
    assert result.outcome == Outcome.CONFLICT
    [seen] = subject.launcher.observe()
    assert (seen.node, seen.devices) == ("node-1", (0,))
    assert seen.state in LIVE


@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_the_exit_code_and_its_instant_are_kept(subject: Subject, code: int) -> None:
    before = SystemClock().now()
    launch = member(subject.end_with(code))
    subject.launcher.launch([launch])
    seen = wait_for_end(subject.launcher, launch.key)
    assert (seen.state, seen.exit_code, seen.was_told_to_stop) == (MemberState.ENDED, code, False)
    assert seen.ended_at is not None
    assert before <= seen.ended_at <= SystemClock().now()


def test_a_command_that_cannot_be_executed_is_told_again(subject: Subject) -> None:
    launch = member(subject.fail())
    for _ in range(2):
        [result] = subject.launcher.launch([launch])
        assert result.outcome == Outcome.CANNOT_EXECUTE
        assert "No such file" in (result.message or "")
    seen = find(subject.launcher, launch.key)
    assert seen is None or seen.cannot_execute


def test_terminate_ends_a_member_that_was_told(subject: Subject) -> None:
    launch = member(subject.run())
    subject.launcher.launch([launch])
    subject.launcher.terminate([launch.key], grace_seconds=30)
    subject.launcher.terminate([launch.key], grace_seconds=30)
    seen = wait_for_end(subject.launcher, launch.key)
    assert (seen.state, seen.exit_code, seen.was_told_to_stop) == (MemberState.ENDED, 128 + 15, True)


def test_terminate_of_the_ended_and_the_unknown_does_nothing(subject: Subject) -> None:
    launch = member(subject.end_with(0))
    subject.launcher.launch([launch])
    ended = wait_for_end(subject.launcher, launch.key)
    subject.launcher.terminate([launch.key, MemberKey(99, 1, 0, 0)], grace_seconds=0)
    assert list(subject.launcher.observe()) == [ended]


def test_terminate_leaves_other_members_alone(subject: Subject) -> None:
    launches = [member(subject.run(), unit_id=UNIT, member=number, devices=(number,)) for number in range(2)]
    subject.launcher.launch(launches)
    subject.launcher.terminate([launches[0].key], grace_seconds=5)
    wait_for_end(subject.launcher, launches[0].key)
    other = find(subject.launcher, launches[1].key)
    assert other is not None
    assert other.state in LIVE


def test_closing_ends_what_runs_and_refuses_it_later(subject: Subject) -> None:
    launches = [member(subject.run(), unit_id=UNIT, member=number, devices=(number,)) for number in range(3)]
    subject.launcher.launch(launches)
    close_surely(subject.launcher, launches[0].key.of)
    assert all(seen.state not in LIVE for seen in subject.launcher.observe())
    results = subject.launcher.launch([replace(launches[0], node="node-2"), *launches])
    assert {result.outcome for result in results} == {Outcome.REFUSED}


def test_closing_what_never_started_forbids_it(subject: Subject) -> None:
    launch = member(subject.run())
    assert [result.is_closed for result in subject.launcher.close([launch.key.of])] == [True]
    assert [result.outcome for result in subject.launcher.launch([launch])] == [Outcome.REFUSED]
    assert list(subject.launcher.observe()) == []


def resizing(subject: Subject) -> ResizingLauncher:
    """The launcher, if it says that it starts and stops single members."""
    can_resize = subject.launcher.capabilities().can_resize
    assert can_resize is isinstance(subject.launcher, ResizingLauncher)
    if not isinstance(subject.launcher, ResizingLauncher):
        pytest.skip("it starts and stops whole generations only")
    return subject.launcher


def test_a_closed_member_is_gone_and_starts_again_only_under_a_higher_revision(subject: Subject) -> None:
    launcher = resizing(subject)
    launches = [member(subject.run(), unit_id=UNIT, member=number, devices=(number,)) for number in range(2)]
    launcher.launch(launches)
    closing = MemberClosing(key=launches[1].key, revision=2)
    wait_until(lambda: all(launcher.close_members([closing])))
    assert [seen.key for seen in launcher.observe() if seen.state in LIVE] == [launches[0].key]
    assert find(launcher, launches[1].key) is None
    subject.reopen()
    late = [launches[1], replace(launches[1], revision=2)]
    assert {one.outcome for one in subject.launcher.launch(late)} == {Outcome.REFUSED}
    [again] = subject.launcher.launch([replace(launches[1], revision=3, node="node-2")])
    assert again.outcome is Outcome.STARTED


def test_closing_a_member_that_never_started_forbids_it(subject: Subject) -> None:
    launcher = resizing(subject)
    launch = member(subject.run())
    assert list(launcher.close_members([MemberClosing(key=launch.key, revision=1)])) == [True]
    assert [one.outcome for one in launcher.launch([launch])] == [Outcome.REFUSED]
    assert list(launcher.close_members([])) == []


@pytest.mark.parametrize(
    ("attempt", "generation", "is_forbidden"),
    [(2, 3, True), (2, 2, True), (1, 9, True), (2, 4, False), (3, 0, False)],
)
def test_a_generation_is_closed_with_all_before_it(
    subject: Subject, attempt: int, generation: int, is_forbidden: bool
) -> None:
    subject.launcher.close([GenerationKey(UNIT, 2, 3)])
    subject.launcher.close([GenerationKey(UNIT, 1, 5)])  # an older one, late: takes nothing back
    launch = member(subject.run(), unit_id=UNIT, attempt=attempt, generation=generation)
    expected = Outcome.REFUSED if is_forbidden else Outcome.STARTED
    assert [result.outcome for result in subject.launcher.launch([launch])] == [expected]


def test_closing_ends_earlier_generations_and_attempts_and_no_others(subject: Subject) -> None:
    earlier = member(subject.run(), unit_id=UNIT, attempt=1, generation=4, devices=(0,))
    closed = member(subject.run(), unit_id=UNIT, attempt=2, generation=0, devices=(1,))
    later = member(subject.run(), unit_id=UNIT, attempt=2, generation=1, devices=(2,))
    other = member(subject.run(), unit_id=UNIT + 1, attempt=1, generation=0, devices=(3,))
    subject.launcher.launch([earlier, closed, later, other])
    close_surely(subject.launcher, closed.key.of)
    states = {seen.key: seen.state in LIVE for seen in subject.launcher.observe()}
    assert states == {earlier.key: False, closed.key: False, later.key: True, other.key: True}


def test_closing_again_answers_the_same(subject: Subject) -> None:
    launch = member(subject.run())
    subject.launcher.launch([launch])
    close_surely(subject.launcher, launch.key.of)
    assert [result.is_closed for result in subject.launcher.close([launch.key.of] * 2)] == [True, True]


@pytest.mark.parametrize(("age", "outcome"), [(3590, Outcome.STARTED), (3610, Outcome.REFUSED)])
def test_an_old_claim_is_refused(subject: Subject, age: float, outcome: Outcome) -> None:
    launch = member(subject.run(), claim_age_seconds=age)
    assert [result.outcome for result in subject.launcher.launch([launch])] == [outcome]


def test_an_old_claim_that_was_carried_out_in_time_is_known(subject: Subject) -> None:
    launch = member(subject.run())
    subject.launcher.launch([launch])
    late = replace(launch, claimed_at=launch.claimed_at - timedelta(hours=2))
    assert [result.outcome for result in subject.launcher.launch([late])] == [Outcome.STARTED]


def test_a_forgotten_generation_is_not_observed_and_stays_closed(subject: Subject) -> None:
    launch = member(subject.end_with(0))
    subject.launcher.launch([launch])
    wait_for_end(subject.launcher, launch.key)
    close_surely(subject.launcher, launch.key.of)
    subject.launcher.forget([launch.key.of])
    subject.launcher.forget([launch.key.of])
    assert list(subject.launcher.observe()) == []
    assert [result.outcome for result in subject.launcher.launch([launch])] == [Outcome.REFUSED]


def test_a_live_member_is_never_forgotten(subject: Subject) -> None:
    launch = member(subject.run())
    subject.launcher.launch([launch])
    subject.launcher.forget([launch.key.of])
    assert [seen.key for seen in subject.launcher.observe()] == [launch.key]


def test_an_end_is_pushed(subject: Subject) -> None:
    woken = threading.Event()
    subject.launcher.on_change(woken.set)
    launch = member(subject.end_with(0))
    subject.launcher.launch([launch])

    def is_told() -> bool:
        woken.wait(5)
        woken.clear()
        seen = find(subject.launcher, launch.key)
        return seen is not None and seen.state is MemberState.ENDED

    wait_until(is_told, seconds=6)


def test_a_new_object_knows_what_an_earlier_one_started(subject: Subject) -> None:
    running = member(subject.run(), unit_id=UNIT, devices=(1,))
    ending = member(subject.end_with(9), unit_id=UNIT + 1, devices=(2,))
    closed = member(subject.run(), unit_id=UNIT + 2, devices=(3,))
    subject.launcher.launch([running, ending, closed])
    close_surely(subject.launcher, closed.key.of)
    subject.reopen()
    ended = wait_for_end(subject.launcher, ending.key)
    assert (ended.exit_code, ended.node, ended.devices) == (9, "node-1", (2,))
    seen = find(subject.launcher, running.key)
    assert seen is not None
    assert seen.state in LIVE
    outcomes = [result.outcome for result in subject.launcher.launch([running, ending, closed])]
    assert outcomes == [Outcome.STARTED, Outcome.STARTED, Outcome.REFUSED]
    assert [result.outcome for result in subject.launcher.launch([replace(running, devices=(7,))])] == [
        Outcome.CONFLICT
    ]
    subject.launcher.terminate([running.key], grace_seconds=5)
    assert wait_for_end(subject.launcher, running.key).was_told_to_stop


def test_calls_from_several_threads_start_a_member_once(subject: Subject) -> None:
    launch = member(subject.run())
    outcomes: list[Outcome] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(subject.launcher.launch([launch])[0].outcome))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [Outcome.STARTED] * 4
    assert len(subject.launcher.observe()) == 1
