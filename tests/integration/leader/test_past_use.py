"""What is over and counts yet: a World that was kept up to date knows what a fresh one knows."""

from __future__ import annotations

import random
from contextlib import ExitStack
from datetime import timedelta

import pytest
import redis
from sqlalchemy import Connection

from service.admission.resident import World
from service.clock import VirtualClock
from service.operations.charge import charge_closed_attempts
from service.operations.load_world import load_world
from service.store.usage_ledger import charge_some
from tests.integration.leader.conftest import MakeLeader
from tests.integration.leader.site import MODEL, Site, gang
from tests.integration.leader.test_world import Life, assert_all_agree

HALF_LIFE = 40.0


def fresh(conn: Connection, half_life: float = HALF_LIFE) -> World:
    world = World.empty(half_life_seconds=half_life)
    world.apply(load_world(conn, half_life_seconds=half_life)[0])
    return world


@pytest.mark.parametrize("seed", range(4))
def test_a_kept_world_counts_as_a_fresh_one(
    site: Site,
    make_leader: MakeLeader,
    direct: Connection,
    client: redis.Redis,
    clock: VirtualClock,
    seed: int,
) -> None:
    leader = make_leader(half_life_seconds=HALF_LIFE)
    draw = random.Random(seed)
    site.submit()
    has_counted = False
    with ExitStack() as open_transactions:
        life = Life(site, seed, open_transactions)
        for _ in range(80):
            life.step()
            if draw.random() < 0.2:
                with site.engine.begin() as conn:
                    charge_some(conn, limit=draw.randint(1, 3))
            if draw.random() < 0.5:
                clock.advance(draw.random() * 10)
                assert leader.run_cycle().is_leader
                assert_all_agree(site, leader, direct, client)
                assert leader.term is not None
                # What was closed held its places for a minute from its admission on.
                now = clock.now() + timedelta(seconds=draw.choice((60, 90, 300)))
                kept, read = (w.past_use.averages(now) for w in (leader.term.world, fresh(direct)))
                assert kept == {queue: pytest.approx(amounts) for queue, amounts in read.items()}
                has_counted |= any(amounts.get(MODEL, 0) > 0 for amounts in kept.values())
    assert has_counted


def test_a_changed_half_life_is_the_ledgers_before_the_world_is_loaded(
    site: Site, make_leader: MakeLeader, direct: Connection, clock: VirtualClock
) -> None:
    site.submit(4, spec=gang(1, 1))
    first = make_leader()
    assert first.run_cycle().admitted == 4
    for (unit,) in site.rows("SELECT unit_id FROM attempts"):
        site.end(unit)
    assert charge_closed_attempts(site.engine) == 4
    assert first.run_cycle().is_leader
    assert first.term is not None
    assert first.term.world.past_use.averages(clock.now()) == {}
    first.close()

    second = make_leader("w2", half_life_seconds=HALF_LIFE)
    assert second.run_cycle().is_leader
    assert second.term is not None
    clock.advance(60)
    charged = site.rows("SELECT FROM closed_attempts WHERE cause IS NULL")
    [counted] = second.term.world.past_use.averages(clock.now()).values()
    assert counted[MODEL] == pytest.approx(len(charged) * (1 - 2 ** (-60 / HALF_LIFE)))
    assert 0 < len(charged) < 4
