"""A whole replay, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from service.admission.policy import Policy
from service.domain.queue import Order, PreemptWithin
from service.domain.status import Status
from simulation.job import Job
from simulation.outcome.group import Fate
from simulation.outcome.outcome import Outcome
from simulation.replay.run import NothingToReplay, replay
from simulation.sites.site import NodeEvent, Outage, Site
from tests.builders import after, configuration, gang, node, queue, role

#: What the service waits before it gives up a seat, and before it tries again.
SEAT, BACKOFF = 600.0, 30.0


def site(
    count: int = 1, *, order: Order = Order.BEST_EFFORT, policy: Policy | None = None, **more: object
) -> Site:
    nodes = [node(number, gpus=8) for number in range(1, count + 1)]
    config = configuration(nodes, [queue(1, order=order, preempt_within=PreemptWithin.LOWER_PRIORITY)])
    made = Site(
        name="s", configuration=config, policy=policy or Policy(restart_cost_seconds=0.0), open_queue=1
    )
    return replace(made, **more)  # type: ignore[arg-type]


def job(
    number: int,
    *,
    gpus: int = 8,
    members: int = 1,
    at: float = 0.0,
    runtime: float = 1000.0,
    limit: int | None = None,
    priority: int = 0,
    **more: object,
) -> Job:
    made = gang(number, role(members, gpus=gpus, cpus=1), at=at, priority=priority)
    row = replace(made.row, time_limit_seconds=limit)
    return replace(Job(row=row, shape=made.shape, runtime_seconds=runtime, tenant="t"), **more)  # type: ignore[arg-type]


def times(outcome: Outcome) -> list[tuple[float | None, float | None]]:
    """Last start and end of each group."""
    return [(each.last_started_at, each.ended_at) for each in outcome]


def fates(outcome: Outcome) -> list[Fate]:
    return [each.fate for each in outcome]


def test_groups_run_one_after_the_other() -> None:
    outcome = replay(site(), [job(1), job(2, at=10.0), job(3, at=20.0, gpus=16)])
    assert times(outcome) == [(0.0, 1000.0), (1000.0, 2000.0), (None, None)]
    assert fates(outcome) == [Fate.SUCCEEDED, Fate.SUCCEEDED, Fate.NEVER_FITS]
    assert [each.wait_seconds for each in outcome] == [0.0, 990.0, None]
    assert list(outcome.attempts.started_at) == [0.0, 1000.0]
    assert list(outcome.attempts.ended_at) == [1000.0, 2000.0]
    assert outcome.tenants == ("t",)
    assert list(outcome.group_ids) == [1, 2, 3]


def test_samples_say_what_is_held_and_what_waits() -> None:
    outcome = replay(site(2), [job(1, gpus=6), job(2, at=10.0), job(3, at=20.0)])
    samples = outcome.samples
    assert list(samples.at) == [0.0, 10.0, 20.0, 1000.0, 1010.0, 2000.0]
    assert list(samples.up_gpus) == [16] * 6
    assert list(samples.held_gpus) == [6, 14, 14, 16, 8, 0]
    assert list(samples.torn_gpus) == [2, 2, 2, 0, 0, 0]
    assert list(samples.waiting) == [0, 0, 1, 0, 0, 0]
    assert list(samples.waiting_gpus) == [0, 0, 8, 0, 0, 0]


def test_jobs_are_read_when_they_are_due() -> None:
    read: list[int] = []

    def stream() -> Iterator[Job]:
        for number in range(1, 6):
            read.append(number)
            yield job(number, at=number * 5000.0)

    seen: list[tuple[int, int]] = []
    replay(
        site(), stream(), progress=lambda reached: seen.append((reached.submitted, len(read))), report_every=1
    )
    assert seen
    assert all(ahead <= submitted + 1 for submitted, ahead in seen)


def test_the_same_jobs_give_the_same_outcome() -> None:
    def once() -> Outcome:
        jobs = [
            job(number, at=number * 70.0, gpus=1 + number % 8, runtime=500.0 + number)
            for number in range(1, 60)
        ]
        return replay(site(2), jobs)

    first, second = once(), once()
    assert list(first) == list(second)
    assert first.samples == second.samples
    assert first.histories == second.histories


def test_nothing_to_replay() -> None:
    with pytest.raises(NothingToReplay):
        replay(site(), [])


# ---------------------------------------------------------------- ends
def test_a_group_ends_at_its_limit() -> None:
    outcome = replay(site(), [job(1, limit=300), job(2, limit=1000)])
    assert times(outcome) == [(0.0, 300.0), (300.0, 1300.0)]
    assert fates(outcome) == [Fate.TIMED_OUT, Fate.SUCCEEDED]


def test_who_failed_in_the_log_fails_once() -> None:
    outcome = replay(site(), [job(1, ends_as=Status.FAILED), job(2, ends_as=Status.CANCELLED)])
    assert times(outcome) == [(0.0, 1000.0), (1000.0, 2000.0)]
    assert fates(outcome) == [Fate.FAILED, Fate.CANCELLED]


def test_who_was_withdrawn_while_it_waited_is_so_if_it_waits_yet() -> None:
    gone = [job(1), job(2, withdrawn_at=after(500)), job(3, withdrawn_at=after(1500))]
    outcome = replay(site(), gone)
    assert times(outcome) == [(0.0, 1000.0), (None, 500.0), (1000.0, 2000.0)]
    assert fates(outcome) == [Fate.SUCCEEDED, Fate.CANCELLED, Fate.SUCCEEDED]


def test_a_start_that_is_refused_backs_off_longer_each_time() -> None:
    outcome = replay(site(), [job(1, failed_starts=3)])
    # 30 s until it is refused, then 30, 60 and 120 s in vain.
    assert times(outcome) == [(3 * 30.0 + 210.0, 300.0 + 1000.0)]


def test_a_start_that_is_always_refused_fails() -> None:
    assert fates(replay(site(), [job(1, failed_starts=99)])) == [Fate.FAILED]


# ---------------------------------------------------------------- nodes
def test_who_lost_its_node_for_a_while_does_its_work_again_in_place() -> None:
    outage = Outage(node_id=1, down=timedelta(seconds=400), up=timedelta(seconds=700))
    outcome = replay(site(outages=(outage,)), [job(1)])
    assert times(outcome) == [(0.0, 1700.0)]
    (only,) = outcome
    assert (only.wasted_gpu_seconds, only.ran_seconds) == (8 * 400.0, 1300.0)
    assert list(outcome.attempts.ended_at) == [1700.0]


def test_who_lost_its_node_for_long_leaves_its_seat() -> None:
    down = NodeEvent(at=after(400), node_id=1, is_up=False)
    outcome = replay(site(2), [job(1), job(2, gpus=4, at=1.0)], events=[down])
    # The first is on the node that goes down; the other node has room for it when the second has ended.
    given_up = 400.0 + SEAT
    (first, second) = outcome
    assert (second.last_started_at, second.ended_at) == (1.0, 1001.0)
    assert first.last_started_at == max(given_up + BACKOFF, 1001.0)
    assert first.fate is Fate.SUCCEEDED
    assert list(outcome.samples.up_gpus)[-1] == 8


def test_a_gang_is_lost_whole() -> None:
    down = NodeEvent(at=after(400), node_id=1, is_up=False)
    outcome = replay(site(3), [job(1, members=2)], events=[down])
    (only,) = outcome
    assert only.last_started_at == 400.0 + SEAT + BACKOFF
    assert only.wasted_gpu_seconds == 16 * (400.0 + SEAT)


# ---------------------------------------------------------------- giving way
def preempting(**more: object) -> list[Job]:
    return [job(1), job(2, at=400.0, priority=10, **more)]  # type: ignore[arg-type]


def test_who_gave_way_does_its_work_again_and_restarts_at_a_cost() -> None:
    outcome = replay(site(policy=Policy(restart_cost_seconds=60.0)), preempting())
    assert times(outcome) == [(1400.0, 1400.0 + 1060.0), (400.0, 1400.0)]
    first, _ = outcome
    assert (first.evictions, first.first_started_at) == (1, 0.0)
    assert first.wasted_gpu_seconds == 8 * 400.0
    evictions = outcome.evictions
    assert (list(evictions.at), list(evictions.group), list(evictions.claimant)) == ([400.0], [0], [1])
    assert list(evictions.lost_gpu_seconds) == [8 * 460.0]


def test_the_cost_of_a_restart_lets_nobody_run_into_its_limit() -> None:
    limited = [job(1, limit=1020), job(2, at=400.0, priority=10)]
    outcome = replay(site(policy=Policy(restart_cost_seconds=60.0)), limited)
    assert times(outcome)[0] == (1400.0, 1400.0 + 1020.0)
    assert fates(outcome) == [Fate.SUCCEEDED, Fate.SUCCEEDED]


def test_who_gives_way_takes_its_time_to_stop() -> None:
    first, second = preempting()
    slow = replace(first, row=replace(first.row, grace_seconds=120), stop_seconds=50.0)
    assert times(replay(site(), [slow, second])) == [(1450.0, 2450.0), (450.0, 1450.0)]


# ---------------------------------------------------------------- what waits
def test_the_reasons_of_who_waited_longest_are_kept() -> None:
    jobs = [job(1), job(2, at=10.0), job(3, at=20.0, gpus=4)]
    outcome = replay(site(order=Order.STRICT), jobs, histories=1)
    (history,) = outcome.histories
    assert history.number == 2
    codes = [codes for _, codes in history.reasons]
    assert "WaitingForTurn" in codes[0]


def test_the_bound_of_a_guard() -> None:
    jobs = guarded(limit=2000)
    outcome = replay(site(2, policy=Policy(guard_seconds=300.0, reserve_depth=0)), jobs)
    big = next(each for each in outcome if each.gpus == 16)
    assert big.bound_seconds is not None
    assert big.wait_seconds is not None
    # Its guard, and then whoever sits there longest at most.
    assert 300.0 < big.bound_seconds <= 300.0 + 2000.0
    assert big.wait_seconds <= big.bound_seconds


def test_no_bound_where_somebody_in_its_way_has_no_limit() -> None:
    outcome = replay(site(2, policy=Policy(guard_seconds=300.0, reserve_depth=0)), guarded(limit=None))
    big = next(each for each in outcome if each.gpus == 16)
    assert big.bound_seconds is None


def guarded(limit: int | None) -> Sequence[Job]:
    """A gang of both nodes behind small groups, of which more come again and again."""
    small = [job(number, gpus=4, at=100.0 * number, runtime=900.0, limit=limit) for number in range(1, 40)]
    big = job(100, members=2, at=450.0, limit=limit)
    return sorted((*small, big), key=lambda each: each.row.submitted_at)
