"""Evictions of a plan on real stores: in the cycle's transaction, with receipts, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import redis
from sqlalchemy import Engine, text

from service.admission.resident import World
from service.clock import VirtualClock
from service.domain.events import Event, Kind
from service.domain.principal import KeyRole, Principal
from service.domain.unit import unit_id
from service.inventory import keys
from service.operations.load_world import load_world
from service.operations.read_preemptions import list_preemptions
from service.store.events import add_events
from service.store.waiting_units import hold_units, lock_group_units
from tests.integration.leader.conftest import MakeLeader
from tests.integration.leader.processes import wait_until
from tests.integration.leader.site import START, Site, bump, gang, independent
from workers.admission import Leader


@pytest.fixture
def low(site: Site, leader: Leader) -> list[int]:
    """Two groups of low priority that fill the site, in a queue whose groups give way by priority."""
    site.execute('UPDATE queues SET policy = \'{"preempt_within": "lower_priority"}\'')
    with site.engine.begin() as conn:
        bump(conn)
    groups = [*site.submit(spec=gang(8, grace_seconds=30)), *site.submit(spec=gang(8, grace_seconds=20))]
    assert leader.run_cycle().admitted == 2
    return groups


def _receipts(site: Site) -> Sequence[Any]:
    return site.rows("SELECT * FROM preemptions ORDER BY unit_id")


def _world_is_as_loaded(leader: Leader, site: Site) -> None:
    assert leader.term is not None
    with site.engine.connect().execution_options(isolation_level="REPEATABLE READ") as conn:
        changes, _ = load_world(conn)
    fresh = World.empty()
    fresh.apply(changes)
    assert leader.term.world == fresh


def test_a_victim_is_evicted_with_grace_and_a_receipt(
    site: Site, leader: Leader, low: list[int], client: redis.Redis
) -> None:
    client.delete(keys.dispatcher_bell(site.pool_id))
    [high] = site.submit(spec=gang(4, priority=5))
    assert leader.run_cycle().admitted == 0
    victim, claimant = unit_id(low[1], 0), unit_id(high, 0)
    assert site.statuses() == {unit_id(low[0], 0): "Admitted", victim: "Evicting", claimant: "Pending"}
    [attempt] = site.rows("SELECT * FROM attempts WHERE unit_id = :unit", unit=victim)
    assert (attempt.evict_target, attempt.evict_cause) == ("Pending", "Preempted")
    assert attempt.dispatch == "Waiting", "no launcher has it"
    assert attempt.evict_backoff_seconds is None
    assert attempt.kill_at - attempt.stop_at == timedelta(seconds=20)
    [claim] = site.rows("SELECT * FROM claims")
    assert (claim.unit_id, claim.cause, len(claim.places)) == (claimant, "Preemption", 4)
    assert claim.due_at == START + timedelta(seconds=80)
    [receipt] = _receipts(site)
    assert (receipt.unit_id, receipt.attempt, receipt.claimant_unit_id) == (victim, 1, claimant)
    assert (receipt.entitlement, receipt.lost_gpu_seconds, receipt.outcome) == ("Priority", 8 * 60, None)
    [event] = site.rows("SELECT * FROM events WHERE kind = 'Evicting'")
    assert (event.unit_id, event.cause, event.is_feed) == (victim, "Preempted", False)
    assert event.data["entitlement"] == "Priority"
    [unit] = site.rows("SELECT preempted_at FROM units WHERE id = :unit", unit=victim)
    assert unit.preempted_at == [START]
    assert client.llen(keys.dispatcher_bell(site.pool_id)) == 1
    _world_is_as_loaded(leader, site)


def test_a_second_cycle_evicts_nobody_more(site: Site, leader: Leader, low: list[int]) -> None:
    site.submit(spec=gang(4, priority=5))
    for _ in range(3):
        leader.run_cycle()
    assert len(_receipts(site)) == 1


def test_the_claimant_starts_on_what_was_freed(
    site: Site, leader: Leader, low: list[int], clock: VirtualClock
) -> None:
    [high] = site.submit(spec=gang(4, priority=5))
    leader.run_cycle()
    # Somebody else of a priority in between, who was first, does not get in between.
    site.submit(spec=gang(8, priority=3))
    clock.advance(10)
    site.requeue(unit_id(low[1], 0))
    leader.run_cycle()
    assert site.statuses()[unit_id(high, 0)] == "Admitted"
    [*receipts] = _receipts(site)
    assert [(row.outcome, row.outcome_at) for row in receipts if row.claimant_group_id == high] == [
        ("Started", START + timedelta(seconds=10))
    ]
    assert site.rows("SELECT FROM claims WHERE unit_id = :unit", unit=unit_id(high, 0)) == []


def test_a_claimant_that_ends_has_wasted_it(site: Site, leader: Leader, low: list[int]) -> None:
    [high] = site.submit(spec=gang(4, priority=5))
    leader.run_cycle()
    site.cancel_waiting(unit_id(high, 0))
    leader.run_cycle()
    [receipt] = _receipts(site)
    assert (receipt.outcome, receipt.outcome_cause) == ("Wasted", "ClaimantEnded")


def test_a_lost_place_wastes_it_and_free_places_come_first(
    site: Site, leader: Leader, low: list[int]
) -> None:
    [high] = site.submit(spec=gang(4, priority=5))
    leader.run_cycle()
    [claim] = site.rows("SELECT places FROM claims")
    site.execute("UPDATE nodes SET is_ready = false WHERE id = :node", node=claim.places[0][2])
    site.add_node("n3")
    leader.run_cycle()
    assert site.statuses()[unit_id(high, 0)] == "Admitted"
    [receipt] = _receipts(site)
    assert (receipt.outcome, receipt.outcome_cause) == ("Wasted", "PlaceLost")


def test_who_ended_meanwhile_is_no_error(site: Site, leader: Leader, low: list[int]) -> None:
    [high] = site.submit(spec=gang(4, priority=5))
    assert leader.read_and_plan()
    site.end(unit_id(low[1], 0))
    leader.resume()
    assert _receipts(site) == []
    leader.run_cycle()
    assert site.statuses()[unit_id(high, 0)] == "Admitted"


def test_nobody_is_evicted_for_a_claimant_that_ended_meanwhile(
    site: Site, leader: Leader, low: list[int]
) -> None:
    [high] = site.submit(spec=gang(4, priority=5))
    assert leader.read_and_plan()
    site.cancel_waiting(unit_id(high, 0))
    leader.resume()
    assert _receipts(site) == []
    leader.run_cycle()
    assert site.rows("SELECT FROM claims") == []


def test_nobody_is_evicted_for_a_claimant_that_was_held_meanwhile(
    site: Site, leader: Leader, low: list[int]
) -> None:
    [high] = site.submit(spec=gang(4, priority=5))
    assert leader.read_and_plan()
    with site.engine.begin() as conn:
        hold_units(conn, lock_group_units(conn, high), message="held", now=START)
        add_events(conn, [Event(at=START, kind=Kind.HELD, group_id=high, unit_id=unit_id(high, 0))])
    leader.resume()
    assert _receipts(site) == []
    leader.run_cycle()
    assert site.rows("SELECT FROM claims") == []


def test_a_claimant_that_ends_before_its_start_is_committed_has_wasted_it_whoever_leads_then(
    site: Site, leader: Leader, low: list[int], make_leader: MakeLeader, clock: VirtualClock
) -> None:
    [high] = site.submit(spec=gang(4, priority=5))
    leader.run_cycle()
    site.requeue(unit_id(low[1], 0))
    assert leader.read_and_plan()
    assert leader.reserve()
    site.cancel_waiting(unit_id(high, 0))
    leader.commit()
    leader.close()
    clock.advance(60)
    make_leader("w2").run_cycle()
    [receipt] = _receipts(site)
    assert (receipt.outcome, receipt.outcome_cause) == ("Wasted", "ClaimantEnded")
    assert site.rows("SELECT FROM claims") == []


def test_a_cycle_that_evicts_takes_the_fence_before_its_victims(
    site: Site, leader: Leader, low: list[int]
) -> None:
    """W4: as everybody does it who raises the version and then locks units, such as a drained queue."""
    site.submit(spec=gang(4, priority=5))
    assert leader.read_and_plan()
    assert leader.reserve()
    with ThreadPoolExecutor() as pool, site.engine.connect() as conn:
        transaction = conn.begin()
        bump(conn)
        committing = pool.submit(leader.commit)
        try:
            wait_until(lambda: _waiting_for_locks(site))
            units = [unit_id(group, 0) for group in low]
            locked = "SELECT id FROM units WHERE id = ANY(:units) FOR NO KEY UPDATE NOWAIT"
            assert len(conn.execute(text(locked), {"units": units}).all()) == 2
        finally:
            transaction.commit()
        assert not committing.result(30), "the plan is of an older version"
    assert _receipts(site) == []


def _waiting_for_locks(site: Site) -> Sequence[Any]:
    return site.rows(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )


def test_the_victim_is_not_told_whose_group_it_gave_way_to_but_for_its_own(
    site: Site, leader: Leader, low: list[int]
) -> None:
    site.submit(spec=gang(4, priority=5))
    site.execute("UPDATE groups SET owner = 'x' WHERE priority = 5")
    [(claimant,)] = site.rows("SELECT public_id FROM groups WHERE priority = 5")
    leader.run_cycle()
    [attempt] = site.rows("SELECT evict_message FROM attempts WHERE evict_target IS NOT NULL")
    assert attempt.evict_message == "gave way to another group"
    [event] = site.rows("SELECT data::text AS told FROM events WHERE kind = 'Evicting'")
    assert str(claimant) not in event.told


def test_another_leader_goes_on_with_the_claim(
    site: Site, leader: Leader, low: list[int], make_leader: MakeLeader, clock: VirtualClock
) -> None:
    [high] = site.submit(spec=gang(4, priority=5))
    leader.run_cycle()
    leader.close()
    clock.advance(60)
    other = make_leader("w2")
    other.run_cycle()
    assert len(_receipts(site)) == 1
    site.requeue(unit_id(low[1], 0))
    other.run_cycle()
    assert site.statuses()[unit_id(high, 0)] == "Admitted"


def test_members_of_independent_groups_give_way_one_by_one(site: Site, leader: Leader) -> None:
    site.execute('UPDATE queues SET policy = \'{"preempt_within": "lower_priority"}\'')
    with site.engine.begin() as conn:
        bump(conn)
    [group] = site.submit(spec=independent(16))
    leader.run_cycle()
    site.submit(spec=gang(3, priority=1))
    leader.run_cycle()
    assert sorted(site.statuses().values()).count("Evicting") == 3
    assert {row.group_id for row in _receipts(site)} == {group}


def test_owners_see_their_own_receipts(site: Site, engine: Engine, leader: Leader, low: list[int]) -> None:
    site.submit(spec=gang(4, priority=5))
    leader.run_cycle()

    def seen(user: str, role: KeyRole, group: UUID | None = None) -> list[tuple[bool, bool]]:
        principal = Principal(tenant="t", user=user, role=role)
        page = list_preemptions(engine, principal=principal, group=group, after=None, limit=10)
        return [(each.victim is not None, each.claimant is not None) for each in page.receipts]

    assert seen("o", KeyRole.USER) == seen("x", KeyRole.OPERATOR) == [(True, True)]
    assert seen("x", KeyRole.USER) == []
    site.execute("UPDATE groups SET owner = 'x' WHERE priority = 5")
    assert seen("x", KeyRole.USER) == [(False, True)]
    assert seen("o", KeyRole.USER) == [(True, False)]
    [(public_id,)] = site.rows("SELECT public_id FROM groups WHERE priority = 5")
    assert seen("x", KeyRole.USER, public_id) == [(False, True)]
    assert seen("o", KeyRole.USER, public_id) == []


def test_the_name_of_a_queue_of_another_tenant_is_not_told(
    site: Site, engine: Engine, leader: Leader, low: list[int]
) -> None:
    site.submit(spec=gang(4, priority=5))
    leader.run_cycle()
    site.execute("UPDATE groups SET owner = 'x', tenant = 'u' WHERE priority = 5")
    site.execute("UPDATE queues SET tenant = 'u'")

    def seen(tenant: str, user: str, role: KeyRole) -> list[tuple[str | None, str | None]]:
        principal = Principal(tenant=tenant, user=user, role=role)
        page = list_preemptions(engine, principal=principal, group=None, after=None, limit=10)
        return [(each.victim_queue, each.claimant_queue) for each in page.receipts]

    assert seen("t", "o", KeyRole.USER) == [(None, None)]
    assert seen("u", "x", KeyRole.USER) == seen("t", "x", KeyRole.OPERATOR) == [("default", "default")]


def test_what_was_decided_is_counted(
    site: Site, leader: Leader, low: list[int], client: redis.Redis, clock: VirtualClock
) -> None:
    [high] = site.submit(spec=gang(4, priority=5))
    assert leader.run_cycle().decisions == {"claim:Preemption": 1, "evicted": 1, "shrunk": 0}
    assert not any(leader.run_cycle().decisions.values())
    clock.advance(200)
    assert leader.run_cycle().decisions["redated"] == 1
    site.cancel_waiting(unit_id(high, 0))
    assert leader.run_cycle().decisions["wasted:ClaimantEnded"] == 1
