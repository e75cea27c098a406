"""What is told from numbers alone is what trying to place would tell: dates are the same, and nobody is
refused to whom others would give way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from service.admission.claims.dating import Ends, Search
from service.admission.held.holds import Taken, taken_by
from service.admission.nodes.seats import is_plain
from service.admission.placement.placement import place_gang
from service.admission.policy import DEFAULT
from service.admission.preemption.preempt import Preemptor
from service.admission.quota.book import QuotaBook
from service.admission.world import Changes
from service.domain.queue import PreemptWithin, Reclaim
from tests.builders import Group, Site, after, configuration, gang, node, queue, role

CASES = 300
#: Each site is asked for several heads, one after the other: to fill it takes most of the time.
HEADS = 4
ASKED_AT = after(60)


def _site(rng: random.Random) -> Site:
    """Racks of small nodes, mostly full of units of several ends and sizes, some of which have just gone."""
    nodes = [
        node(number, rng.randint(1, 4), labels={"rack": f"r{number % 3}"}, is_ready=rng.random() < 0.95)
        for number in range(1, 10)
    ]
    queues = [
        queue(
            queue_id,
            nominal={"mx": rng.choice((3, 6, 20))},
            cohort=1,
            preempt_within=PreemptWithin.LOWER_PRIORITY,
            reclaim=rng.choice((Reclaim.NEVER, Reclaim.ANY, Reclaim.LOWER_PRIORITY, Reclaim.FAIR_SHARE)),
        )
        for queue_id in (1, 2)
    ]
    site = Site()
    site.world.apply(Changes(configuration=configuration(nodes, queues, levels=("rack", "host"))))
    site.submit(*(_group(rng, group_id, most=3) for group_id in range(10, 40)))
    site.cycle()
    gone = [unit_id for unit_id in site.world.running if rng.random() < 0.1]
    site.world.apply(Changes(gone=frozenset({*site.world.pending, *gone})))
    return site


def _group(rng: random.Random, group_id: int, *, most: int) -> Group:
    group = gang(
        group_id,
        role(rng.randint(1, most), rng.randint(1, 3), cpus=rng.choice((1, 20))),
        queue_id=rng.randint(1, 2),
        priority=rng.randint(0, 2),
        required=rng.choice((None, "rack")),
    )
    return Group(replace(group.row, time_limit_seconds=rng.choice((600, 1200, 3600, None))), group.shape)


def _some_claimed(rng: random.Random, site: Site) -> list[Taken]:
    """What somebody else will take of what runs now."""
    units = [unit for unit in site.world.running.values() if rng.random() < 0.1]
    return [taken for unit in units for taken in taken_by(unit.places, site.world.shapes[unit.shape_id])]


def _cases() -> Iterator[tuple[int, random.Random, Site, Group]]:
    for number in range(0, CASES, HEADS):
        rng = random.Random(number)
        site = _site(rng)
        for case in range(number, number + HEADS):
            head = _group(rng, 1, most=5)
            site.submit(head)
            yield case, rng, site, head
            site.world.apply(Changes(gone=frozenset([head.row.id])))


def test_a_date_is_the_one_that_trying_finds() -> None:
    dated = 0
    for number, rng, site, head in _cases():
        occupied, ends = _some_claimed(rng, site), Ends(site.world, ASKED_AT)
        query = site.world.capacity.query(head.row.shape_id, head.shape)
        assert is_plain(query)
        found = [
            _date(ends, head, run(ends.bounded()))
            for run in (
                Search(site.world, head.row, query, caps={}, occupied=occupied).run,
                Search(site.world, head.row, query, caps={}, occupied=occupied).run_imagined,
            )
        ]
        assert found[0] == found[1], f"case {number}"
        dated += found[0] is not None
    assert dated > CASES // 4


def _date(ends: Ends, head: Group, places: object) -> datetime | None:
    return None if places is None else ends.date_of(head.row, places, ()).due_at  # type: ignore[arg-type]


def test_nobody_is_refused_to_whom_others_would_give_way() -> None:
    refused = planned = 0
    for number, _, site, head in _cases():
        world, quota = site.world, QuotaBook(site.world.quota)
        query = world.capacity.query(head.row.shape_id, head.shape)
        preemptor = Preemptor(world, quota, policy=DEFAULT, now=ASKED_AT)
        is_missed = place_gang(world.capacity, query, caps={}) is None
        may = preemptor.may_plan(world.pending[head.row.id], is_missed=is_missed)
        plan = preemptor.plan(world.pending[head.row.id])
        quota.give_back()
        world.capacity.give_back()
        assert may or plan is None, f"case {number}"
        refused += not may
        planned += plan is not None
    assert min(refused, planned) > CASES // 20
