"""What happens to a unit, as a table: one named line for each rule of the architecture's section 5."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.domain.group import OnMemberLoss
from service.domain.lifecycle.decisions import Advance, Decision, Evict, Recover, Succeed
from service.domain.lifecycle.facts import MemberView, Phase, Policy, UnitView
from service.domain.lifecycle.launches import judge_launch_refusal
from service.domain.lifecycle.losses import judge_survivors
from service.domain.lifecycle.rules import decide
from service.domain.status import Cause, Status, may_change, passed_through

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def member(number: int, phase: Phase, **values: Any) -> MemberView:
    return MemberView(member=number, node_id=10 + number, node=f"n{number}", phase=phase, **values)


def ready(number: int) -> MemberView:
    return member(number, Phase.READY)


def starting(number: int) -> MemberView:
    return member(number, Phase.STARTING)


def unknown(number: int) -> MemberView:
    return member(number, Phase.UNKNOWN)


def ended(number: int, code: int = 0, *, seconds: float = -1, **values: Any) -> MemberView:
    return member(number, Phase.ENDED, exit_code=code, ended_at=at(seconds), **values)


def lost(number: int, **values: Any) -> MemberView:
    return member(number, Phase.LOST, **values)


RUNNING = UnitView(status=Status.RUNNING, is_launched=True)
STARTING = replace(RUNNING, status=Status.STARTING)
ADMITTED = replace(RUNNING, status=Status.ADMITTED)
WAITING = replace(ADMITTED, is_launched=False)
RECOVERING = replace(
    RUNNING,
    status=Status.RECOVERING,
    loss_cause=Cause.USER_ERROR,
    loss_message="Member 1 exited.",
    seat_deadline_at=at(60),
)
STOPPING = replace(RECOVERING, is_launched=False)
POLICY = Policy(max_restarts=1, backoff_seconds=7, seat_timeout_seconds=60)
FAIL = replace(POLICY, on_member_loss=OnMemberLoss.FAIL)


@dataclass(frozen=True)
class Case:
    """`is_`: the decision's kind, None for nothing. `has`: fields that it has."""

    name: str
    unit: UnitView
    members: list[MemberView]
    is_: type[Decision] | None
    has: dict[str, Any] = field(default_factory=dict)
    policy: Policy = POLICY
    says: str = ""


PROGRESS = [
    Case("nothing seen yet", ADMITTED, [unknown(0), unknown(1)], None),
    Case("the first member shows", ADMITTED, [starting(0), unknown(1)], Advance, {"to": Status.STARTING}),
    Case("not all are ready", STARTING, [ready(0), starting(1)], None),
    Case("all are ready", STARTING, [ready(0), ready(1)], Advance, {"to": Status.RUNNING}),
    Case("all at once from Admitted", ADMITTED, [ready(0), ready(1)], Advance, {"to": Status.RUNNING}),
    Case("all are ready again", RECOVERING, [ready(0), ready(1)], Advance, {"to": Status.RUNNING}),
    Case("still ready", RUNNING, [ready(0), ready(1)], None),
    Case(
        "one ended with 0, it had been ready", STARTING, [ended(0), ready(1)], Advance, {"to": Status.RUNNING}
    ),
    Case("one ended with 0, another not ready", STARTING, [ended(0), starting(1)], None),
    Case("one ended with 0, it is not lost", RUNNING, [ended(0), ready(1)], None),
]

ENDS = [
    Case(
        "all ended with 0",
        RUNNING,
        [ended(0, seconds=-9), ended(1, seconds=-3)],
        Succeed,
        {"ended_at": at(-3)},
    ),
    Case("all ended before anybody looked", ADMITTED, [ended(0), ended(1)], Succeed),
    Case("all ended after a restart in place", RECOVERING, [ended(0)], Succeed),
    Case(
        "exit 0 after being told to stop is no success",
        RUNNING,
        [ended(0), ended(1, was_told_to_stop=True)],
        Recover,
        {"cause": Cause.INFRASTRUCTURE, "counts_restart": False},
        says="Member 1 was stopped from outside",
    ),
    Case(
        "cannot be executed fails at once",
        STARTING,
        [ready(0), ended(1, 127, cannot_execute=True, detail="no such file")],
        Evict,
        {"target": Status.FAILED, "cause": Cause.USER_ERROR, "counts_restart": False},
        says="The command of member 1 cannot be executed on n1: no such file",
    ),
]

LOSSES = [
    Case(
        "an exit counts a restart",
        RUNNING,
        [ready(0), ended(1, 3)],
        Recover,
        {"cause": Cause.USER_ERROR, "counts_restart": True, "seat_deadline_at": at(60)},
        says="Member 1 exited with code 3 on n1",
    ),
    Case("an exit while it starts", STARTING, [starting(0), ended(1, 3)], Recover, {"counts_restart": True}),
    Case(
        "the failure that came first is named",
        RUNNING,
        [ended(0, 9, seconds=-1), ended(1, 3, seconds=-5)],
        Recover,
        says="Member 1 exited with code 3",
    ),
    Case(
        "restarts are used up",
        replace(RUNNING, restarts_used=1),
        [ready(0), ended(1, 3, log_tail="Traceback\nKeyError")],
        Evict,
        {"target": Status.FAILED, "cause": Cause.USER_ERROR, "backoff_seconds": None},
        says="Its restarts are used up (1 of 1). Member 1 exited with code 3 on n1: Traceback\nKeyError",
    ),
    Case(
        "no restarts at all",
        RUNNING,
        [ended(0, 1)],
        Evict,
        {"target": Status.FAILED},
        replace(POLICY, max_restarts=0),
        says="No restarts are allowed.",
    ),
    Case("fail by policy", RUNNING, [ready(0), ended(1, 1)], Evict, {"target": Status.FAILED}, FAIL),
    Case(
        "fail by policy names a lost node too",
        RUNNING,
        [ready(0), lost(1)],
        Evict,
        {"target": Status.FAILED, "cause": Cause.INFRASTRUCTURE, "failed_nodes": (11,)},
        FAIL,
    ),
    Case(
        "a lost member counts no restart",
        replace(RUNNING, restarts_used=1),
        [ready(0), lost(1, detail="its supervisor was killed")],
        Recover,
        {"cause": Cause.INFRASTRUCTURE, "counts_restart": False, "failed_nodes": (11,), "lost_nodes": ()},
        says="Member 1 was lost on n1: its supervisor was killed",
    ),
    Case(
        "a member that is lost with its node",
        RUNNING,
        [ready(0), lost(1, is_node_lost=True)],
        Recover,
        {"cause": Cause.INFRASTRUCTURE, "failed_nodes": (11,), "lost_nodes": (11,)},
        says="Member 1 was lost with n1",
    ),
    Case(
        "one node of two is lost, and the group fails by policy",
        RUNNING,
        [lost(0), lost(1, is_node_lost=True)],
        Evict,
        {"failed_nodes": (10, 11), "lost_nodes": (11,)},
        FAIL,
        says="Members 0, 1 were lost on n0, n1",
    ),
    Case(
        "peers that fail with a lost one are not at fault",
        RUNNING,
        [ended(0, 1), lost(1)],
        Recover,
        {"cause": Cause.INFRASTRUCTURE, "counts_restart": False},
    ),
    Case(
        "who was stopped from outside, and whose peers failed for it, is not at fault, and nor is a node",
        replace(RUNNING, restarts_used=1),
        [ended(0, 143, was_told_to_stop=True), ended(1, 1, seconds=-5)],
        Recover,
        {"cause": Cause.INFRASTRUCTURE, "counts_restart": False, "failed_nodes": ()},
    ),
    Case(
        "fail by policy, also when it was stopped from outside",
        RUNNING,
        [ready(0), ended(1, 143, was_told_to_stop=True)],
        Evict,
        {"target": Status.FAILED, "cause": Cause.INFRASTRUCTURE},
        FAIL,
    ),
    Case(
        "a second node is no hold yet",
        replace(RUNNING, failed_nodes=(99,)),
        [ready(0), lost(1)],
        Recover,
    ),
    Case(
        "the same node again is no third one",
        replace(RUNNING, failed_nodes=(11, 99)),
        [ready(0), lost(1)],
        Recover,
    ),
    Case(
        "three different nodes: queued again, held",
        replace(RUNNING, failed_nodes=(98, 99)),
        [ready(0), lost(1)],
        Evict,
        {"target": Status.PENDING, "cause": Cause.INFRASTRUCTURE, "is_held": True, "counts_restart": False},
        says="3 different nodes",
    ),
    Case("a second loss in these places", replace(RUNNING, infrastructure_losses=1), [lost(1)], Recover),
    Case(
        "a third loss in these places: they are left, with backoff and no restart",
        replace(RUNNING, infrastructure_losses=2, failed_nodes=(11,)),
        [ready(0), lost(1)],
        Evict,
        {
            "target": Status.PENDING,
            "cause": Cause.INFRASTRUCTURE,
            "backoff_seconds": 7,
            "counts_restart": False,
            "is_held": False,
            "failed_nodes": (11,),
        },
        says="3 times",
    ),
    Case(
        "stopped from outside for the third time",
        replace(RUNNING, infrastructure_losses=2, failed_nodes=(1, 2, 3)),
        [ended(0, 143, was_told_to_stop=True)],
        Evict,
        {"target": Status.PENDING, "cause": Cause.INFRASTRUCTURE, "backoff_seconds": 7, "is_held": False},
    ),
    Case(
        "a second loss does not move the seat deadline",
        replace(RECOVERING, seat_deadline_at=at(5)),
        [ready(0), ended(1, 1)],
        Recover,
        {"seat_deadline_at": at(5), "counts_restart": True},
    ),
    Case("members of the old generation are being stopped", STOPPING, [ended(0, 143), ended(1, 1)], None),
    Case("Evicting is left to closing", replace(RUNNING, status=Status.EVICTING), [ended(0, 1)], None),
]

DEADLINES = [
    Case("a start that is not over", replace(STARTING, start_deadline_at=at(1)), [starting(0)], None),
    Case(
        "a start that is over counts a restart",
        replace(STARTING, start_deadline_at=NOW),
        [starting(0)],
        Evict,
        {"target": Status.PENDING, "cause": Cause.USER_ERROR, "counts_restart": True, "backoff_seconds": 7},
    ),
    Case(
        "a start that is over, restarts used up",
        replace(STARTING, start_deadline_at=NOW, restarts_used=1),
        [starting(0)],
        Evict,
        {"target": Status.FAILED, "cause": Cause.USER_ERROR},
    ),
    Case(
        "a start that is over, fail by policy",
        replace(STARTING, start_deadline_at=NOW),
        [starting(0)],
        Evict,
        {"target": Status.FAILED},
        FAIL,
    ),
    Case(
        "a start that is over because a node is down",
        replace(STARTING, start_deadline_at=NOW, down_nodes=(11,), restarts_used=1),
        [starting(0)],
        Evict,
        {"target": Status.PENDING, "cause": Cause.INFRASTRUCTURE, "counts_restart": False},
    ),
    Case(
        "a start that is over and never went to a launcher",
        replace(WAITING, start_deadline_at=NOW, restarts_used=1),
        [unknown(0)],
        Evict,
        {"target": Status.PENDING, "cause": Cause.INFRASTRUCTURE, "counts_restart": False},
    ),
    Case(
        "ready at the last moment",
        replace(STARTING, start_deadline_at=NOW),
        [ready(0)],
        Advance,
        {"to": Status.RUNNING},
    ),
    Case("Running has no start deadline", replace(RUNNING, start_deadline_at=at(-9)), [ready(0)], None),
    Case(
        "a start that is over while it recovers, and never ran",
        replace(RECOVERING, start_deadline_at=NOW),
        [starting(0)],
        Evict,
        {"target": Status.PENDING, "cause": Cause.USER_ERROR, "counts_restart": True, "backoff_seconds": 7},
        says="start timeout",
    ),
    Case(
        "a start that is over after infrastructure failed it",
        replace(RECOVERING, start_deadline_at=NOW, loss_cause=Cause.INFRASTRUCTURE, restarts_used=1),
        [starting(0)],
        Evict,
        {"target": Status.PENDING, "cause": Cause.INFRASTRUCTURE, "counts_restart": False},
    ),
    Case("a seat deadline that is not over", RECOVERING, [starting(0)], None),
    Case(
        "a seat deadline that is over: queued again, no second restart counted",
        replace(RECOVERING, seat_deadline_at=NOW),
        [starting(0)],
        Evict,
        {"target": Status.PENDING, "cause": Cause.USER_ERROR, "counts_restart": False, "backoff_seconds": 7},
        says="Member 1 exited.",
    ),
    Case(
        "a seat deadline that is over while the old ones are stopped",
        replace(STOPPING, seat_deadline_at=NOW),
        [ready(0)],
        Evict,
        {"target": Status.PENDING},
    ),
    Case(
        "ready again at the last moment",
        replace(RECOVERING, seat_deadline_at=NOW),
        [ready(0)],
        Advance,
        {"to": Status.RUNNING},
    ),
    Case(
        "the time limit fails it, whatever its restarts",
        replace(RUNNING, time_limit_at=NOW),
        [ready(0)],
        Evict,
        {
            "target": Status.FAILED,
            "cause": Cause.TIME_LIMIT,
            "backoff_seconds": None,
            "counts_restart": False,
        },
    ),
    Case(
        "the time limit while it waits for its launcher",
        replace(WAITING, time_limit_at=NOW),
        [unknown(0)],
        Evict,
        {"target": Status.FAILED, "cause": Cause.TIME_LIMIT},
    ),
    Case(
        "the time limit goes before a start in place",
        replace(STOPPING, time_limit_at=NOW, seat_deadline_at=NOW),
        [ready(0)],
        Evict,
        {"cause": Cause.TIME_LIMIT},
    ),
    Case("the time limit came after the end", replace(RUNNING, time_limit_at=NOW), [ended(0)], Succeed),
    Case(
        "a node is gone before the first start: the places are given back",
        replace(WAITING, down_nodes=(11,)),
        [unknown(0)],
        Evict,
        {
            "target": Status.PENDING,
            "cause": Cause.INFRASTRUCTURE,
            "backoff_seconds": None,
        },
    ),
    Case(
        "a node is gone before a start in place: it is waited for",
        replace(STOPPING, down_nodes=(11,)),
        [unknown(0)],
        None,
    ),
]


@pytest.mark.parametrize("case", PROGRESS + ENDS + LOSSES + DEADLINES, ids=lambda case: case.name)
def test_decide(case: Case) -> None:
    decision = decide(case.unit, case.policy, members=case.members, now=NOW)

    assert type(decision) is (type(None) if case.is_ is None else case.is_)
    assert {name: getattr(decision, name) for name in case.has} == case.has
    if case.says:
        assert case.says in decision.message  # type: ignore[union-attr]
    if decision is not None:
        assert_edges_exist(case.unit.status, decision)


def assert_edges_exist(status: Status, decision: Decision) -> None:
    """Every decision leads along the one table of edges."""
    match decision:
        case Advance(to=to):
            assert passed_through(status, to)[-1] is to
        case Succeed():
            assert passed_through(status, Status.SUCCEEDED)[-1] is Status.SUCCEEDED
        case Recover():
            assert status is Status.RECOVERING or passed_through(status, Status.RECOVERING)
        case Evict(target=target):
            assert may_change(status, Status.EVICTING)
            assert may_change(Status.EVICTING, target)


def test_a_decision_is_the_same_for_the_same_state() -> None:
    for case in PROGRESS + ENDS + LOSSES + DEADLINES:
        first = decide(case.unit, case.policy, members=case.members, now=NOW)
        assert first == decide(case.unit, case.policy, members=case.members, now=NOW)


@pytest.mark.parametrize(
    ("refused", "target", "backoff_seconds"),
    [
        (0, Status.PENDING, 30),
        (1, Status.PENDING, 60),
        (2, Status.PENDING, 120),
        (3, Status.PENDING, 240),
        (4, Status.FAILED, None),
        (9, Status.FAILED, None),
    ],
)
def test_refusals_back_off_longer_each_time_and_fail_in_the_end(
    refused: int, target: Status, backoff_seconds: int | None
) -> None:
    verdict = judge_launch_refusal(replace(WAITING, refused_dispatches=refused), POLICY, message="no image")
    assert (verdict.target, verdict.backoff_seconds, verdict.counts_refusal) == (
        target,
        backoff_seconds,
        True,
    )
    assert "no image" in verdict.message
    assert verdict.counts_restart is False


def test_the_wait_after_refusals_is_bounded() -> None:
    patient = replace(POLICY, max_dispatches=1000)
    waits = [
        judge_launch_refusal(replace(WAITING, refused_dispatches=n), patient, message="no").backoff_seconds
        for n in range(30)
    ]
    assert waits[-1] == waits[10] == 30 * 64


def test_old_members_that_cannot_be_ended_cost_the_places_but_no_restart() -> None:
    verdict = judge_survivors(POLICY)
    assert (verdict.target, verdict.cause, verdict.counts_restart) == (
        Status.PENDING,
        Cause.INFRASTRUCTURE,
        False,
    )


@pytest.mark.parametrize("old", list(Status))
@pytest.mark.parametrize("new", list(Status))
def test_passed_through_never_leaves_the_edges(old: Status, new: Status) -> None:
    try:
        steps = passed_through(old, new)
    except ValueError:
        assert not may_change(old, new)
        return
    assert all(may_change(a, b) for a, b in zip((old, *steps), steps, strict=False))
    assert steps[-1] is new
