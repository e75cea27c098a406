"""How the cluster decides is said while it does: the leader goes by it from its next cycle on."""

from __future__ import annotations

from datetime import timedelta

import redis
from sqlalchemy import Connection

from service.clock import VirtualClock
from service.domain.scheduling import SchedulingSettings
from service.domain.tree import Tree, Wanted
from service.operations.apply_policy import apply_policy
from service.operations.charge import charge_closed_attempts
from tests.integration.leader.conftest import MakeLeader
from tests.integration.leader.site import START, Site, gang
from tests.integration.leader.test_world import assert_all_agree


def _say(site: Site, **said: int) -> None:
    wanted = Wanted(tree=Tree(scheduling=SchedulingSettings(**said)), places={})
    apply_policy(site.engine, wanted, is_dry_run=False, actor="admin", now=START)


def test_a_leader_goes_by_what_is_said_from_its_next_cycle_on(
    site: Site, make_leader: MakeLeader, direct: Connection, client: redis.Redis, clock: VirtualClock
) -> None:
    site.submit(4, spec=gang(1, 1))
    leader = make_leader(guard_seconds=500)
    assert leader.run_cycle().admitted == 4
    before = leader.term
    assert before is not None
    assert before.policy.guard_seconds == 500

    _say(site, guard_seconds=77, half_life_seconds=40)
    site.submit(2, spec=gang(1, 1))
    clock.advance(1)
    assert leader.run_cycle().admitted == 2
    assert leader.term is before
    assert (before.policy.guard_seconds, before.policy.half_life_seconds) == (77, 40)
    assert_all_agree(site, leader, direct, client)

    # What is taken back has the value of the variable again.
    _say(site)
    assert leader.run_cycle().is_leader
    assert before.policy.guard_seconds == 500


def test_use_that_is_over_counts_from_when_that_is_said(
    site: Site, make_leader: MakeLeader, clock: VirtualClock
) -> None:
    site.submit(1, spec=gang(1, 1))
    leader = make_leader()
    assert leader.run_cycle().admitted == 1
    (unit,) = site.rows("SELECT unit_id FROM attempts")
    clock.advance(60)
    site.end(unit.unit_id)
    assert charge_closed_attempts(site.engine) == 1
    assert leader.run_cycle().is_leader
    assert leader.term is not None
    assert leader.term.world.past_use.averages(clock.now()) == {}

    _say(site, half_life_seconds=40)
    assert leader.run_cycle().is_leader
    assert leader.term.world.past_use.averages(clock.now() + timedelta(seconds=1))
