"""Rule 7 on streams: whoever has waited its guard for places alone gets a set of them that nobody behind it
takes, and starts within the bound; without a guard it would wait for ever."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from service.admission.policy import Policy
from service.admission.resident import World
from service.admission.world import PendingUnit
from service.domain.claim import ClaimCause
from service.domain.unit import unit_id
from simulation.job import Job
from simulation.replay.agenda import Wake
from simulation.replay.loop import Moment, Simulation
from tests.builders import NOW, after, configuration, gang, node, queue, role
from tests.simulation.promises import Promises
from tests.simulation.test_backfill import cluster, stream

GUARD_SECONDS = 3000.0
#: A cycle comes at least so often.
TICK_SECONDS = 250.0
#: The longest limit of a stream, and the longest grace.
LONGEST_SECONDS = 9000.0 + 300.0
SEEDS = range(3)


def ticking(simulation: Simulation, until: datetime) -> Iterator[Moment]:
    at = NOW
    while at < until:
        simulation.agenda.note(at, Wake())
        at += timedelta(seconds=TICK_SECONDS)
    yield from simulation.run(until)


def guarded(
    seed: int, *, endless: float, depth: int | None, days: float
) -> tuple[Simulation, Promises, list[float]]:
    """A stream, and how long each unit waited."""
    policy = Policy(reserve_depth=depth, guard_seconds=GUARD_SECONDS)
    simulation = Simulation(cluster(may_preempt=False), start_at=NOW, policy=policy)
    simulation.submit(stream(seed, count=90, priorities=(0,), endless=endless))
    promises, waits = Promises(simulation), list[float]()
    waiting, quiet = list[PendingUnit](), 0
    for moment in ticking(simulation, NOW + timedelta(days=days)):
        promises.check(moment)
        plan = moment.plan
        if not (plan.admissions or plan.claims_made or plan.claims_ended):
            # What a cycle gives up is there for others in the next one.
            _have_claims(simulation.world, [row for row in waiting if _has_expired(row, moment.now)])
            quiet += 1
        waiting = list(simulation.world.pending.values())
        waits += [
            (moment.now - simulation.books.job(each.group_id).row.submitted_at).total_seconds()
            for each in moment.plan.admissions
        ]
    assert quiet > 100
    return simulation, promises, waits


def _has_expired(row: PendingUnit, now: datetime) -> bool:
    return row.submitted_at <= now - timedelta(seconds=GUARD_SECONDS)


def _have_claims(world: World, expired: list[PendingUnit]) -> None:
    """Of each class the first that has waited its guard has a claim, unless it has started, or what is not
    claimed by others would not hold it."""
    first: dict[tuple[int, int], PendingUnit] = {}
    for row in sorted(expired, key=lambda row: (row.submitted_at, row.id)):
        first.setdefault((row.queue_id, row.shape_id), row)
    for row in first.values():
        if row.id in world.pending.keys() - world.claims.keys() and world.could_fit(row):
            seats = _unclaimed_seats(world, row)
            need = world.shapes[row.shape_id].roles[0].count if world.shapes[row.shape_id].is_gang else 1
            assert seats < need, f"{row.public_id} has waited its guard, and nothing is kept for it"


def _unclaimed_seats(world: World, row: PendingUnit) -> int:
    """How many of its members nodes would seat that hold nothing but what is claimed by others who guard it,
    in the best domain."""
    shape = world.shapes[row.shape_id]
    requests = shape.roles[0].requests
    seats: dict[str, int] = {}
    for each in world.configuration.nodes.values():
        gpus, cpus = len(each.devices), each.cpus_milli
        for claim in world.claims.values():
            if claim.cause is ClaimCause.HEAD and claim.unit_id != row.id:
                # A head gives its places up to a guard, but for one that comes first in the same queue.
                head = world.pending[claim.unit_id]
                if head.queue_id != row.queue_id or head.submitted_at > row.submitted_at:
                    continue
            role = world.shapes[world.pending[claim.unit_id].shape_id].roles
            for place in claim.places:
                if place.node_id == each.id:
                    gpus -= len(place.devices)
                    cpus -= role[place.role].requests.cpus_milli
        domain = "" if shape.required is None else each.labels[shape.required]
        seats[domain] = seats.get(domain, 0) + min(gpus // requests.gpus, cpus // requests.cpus_milli)
    return max(seats.values())


@pytest.mark.parametrize("depth", [0, 1])
def test_with_limits_everybody_starts_within_the_bound(depth: int) -> None:
    guards = longest = 0.0
    for seed in SEEDS:
        simulation, promises, waits = guarded(seed, endless=0.0, depth=depth, days=2)
        world = simulation.world
        assert not [row.public_id for row in world.pending.values() if world.could_fit(row)]
        # Nobody goes before a guard; guards go before heads.
        assert promises.overtaken_guards == 0
        guards += promises.guards
        longest = max(longest, *waits)
        # Its guard, the longest that anybody stays on the places, and those guarded before it.
        assert max(waits) <= GUARD_SECONDS + TICK_SECONDS + LONGEST_SECONDS * (1 + promises.most_guards)
    print(f"depth {depth}: {guards:.0f} guards, the longest wait {longest:.0f} s")
    assert guards > 10


@pytest.mark.parametrize("depth", [0, 1])
def test_with_groups_that_never_end_places_are_kept_all_the_same(depth: int) -> None:
    endless = 0
    for seed in SEEDS[:2]:
        _, promises, _ = guarded(seed, endless=0.5, depth=depth, days=1)
        endless += promises.undated
    print(f"depth {depth}: {endless} claims had no date")
    assert endless > 0


def small_groups_against_a_big_one(policy: Policy, *, limit: int | None, count: int) -> float | None:
    """When the big one starts, in seconds; None: not while small ones come, two every ten seconds."""
    made = configuration([node(1, gpus=8), node(2, gpus=8)], [queue(1), queue(2)])
    simulation = Simulation(made, start_at=NOW, policy=policy)
    rng = random.Random(7)
    big = gang(1, role(2, gpus=8), queue_id=1, at=100)
    jobs = [Job(row=big.row, shape=big.shape, runtime_seconds=600.0)]
    for number in range(2, count + 2):
        small = gang(number, queue_id=2, at=number * 5)
        row = replace(small.row, time_limit_seconds=limit)
        jobs.append(Job(row=row, shape=small.shape, runtime_seconds=rng.uniform(60, 115)))
    simulation.submit(jobs)
    for moment in simulation.run(after(count * 5)):
        if any(each.unit_id == unit_id(1, 0) for each in moment.plan.admissions):
            return (moment.now - NOW).total_seconds()
    return None


@pytest.mark.parametrize("limit", [120, None])
def test_a_stream_of_small_groups_starves_a_big_one_only_without_a_guard(limit: int | None) -> None:
    no_guard = Policy(reserve_depth=0, guard_seconds=1e9)
    guard = Policy(reserve_depth=0, guard_seconds=1200.0)
    assert small_groups_against_a_big_one(no_guard, limit=limit, count=600) is None
    started = small_groups_against_a_big_one(guard, limit=limit, count=600)
    assert started is not None
    print(f"limit {limit}: the big one starts after {started - 100:.0f} s, with a guard of 1200")
    assert started <= 100 + 1200 + 120 + 10
