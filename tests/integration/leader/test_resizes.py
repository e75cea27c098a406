"""The leader's side of a resize: by revision in both stores, whoever dies in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import redis
from psycopg.types.json import Jsonb
from sqlalchemy import text

from service.admission.resident import World
from service.clock import VirtualClock
from service.domain.events import Event, Kind
from service.domain.group import Elastic, GroupSpec, Role
from service.domain.resources import Resources
from service.domain.shape import Sizing
from service.domain.unit import unit_id
from service.operations.load_world import load_world
from service.store.events import add_events
from service.store.waiting_units import hold_units, lock_group_units
from tests.integration.leader.conftest import MakeLeader
from tests.integration.leader.site import START, Site, bump, gang
from tests.integration.leader.test_interleavings import assert_books_agree
from workers.admission import Leader


def elastic(count: int = 8, least: int = 2) -> GroupSpec:
    requests = Resources(gpus=1, cpus_milli=1000, memory_mib=1024)
    role = Role(name="worker", count=count, min_count=least, requests=requests, command=("true",))
    return GroupSpec(name="e", roles=(role,), elastic=Elastic(resize=Sizing.WHILE_RUNNING), grace_seconds=5)


@pytest.fixture
def grown(site: Site, leader: Leader) -> int:
    """A unit that runs with four of eight members, while there is room for all."""
    site.execute("UPDATE pools SET can_resize = true")
    quota(site, 4)
    [group] = site.submit(spec=elastic())
    assert leader.run_cycle().admitted == 1
    unit = unit_id(group, 0)
    with site.engine.begin() as conn:
        conn.execute(text("UPDATE units SET status = 'Running', version = version + 1"))
        event = Event(at=START, kind=Kind.RUNNING, group_id=group, unit_id=unit, is_feed=True)
        add_events(conn, [event])
    quota(site, 8)
    return unit


def quota(site: Site, gpus: int) -> None:
    with site.engine.begin() as conn:
        conn.execute(text("UPDATE queues SET has_quota = true"))
        conn.execute(text("DELETE FROM quotas"))
        for resource, nominal in (("H100-80GB", gpus), ("cpus", 1_000_000), ("memory", 1_000_000)):
            conn.execute(
                text("INSERT INTO quotas (queue_id, resource, nominal) VALUES (:queue, :resource, :nominal)"),
                {"queue": site.queue_id, "resource": resource, "nominal": nominal},
            )
        bump(conn)


def attempt_of(site: Site) -> Any:
    [row] = site.rows("SELECT * FROM attempts")
    return row


def drop(site: Site, members: Sequence[int]) -> None:
    """What a dispatcher books when members that were given up are gone."""
    row = attempt_of(site)
    left = [place for place in row.places if place[0] not in members]
    gone = [place for place in row.places if place[0] in members]
    usage = {"H100-80GB": len(left), "cpus": 1000 * len(left), "memory": 1024 * len(left)}
    with site.engine.begin() as conn:
        conn.execute(
            text("UPDATE attempts SET places = :places, usage = :usage, adding = NULL"),
            {"places": Jsonb(left), "usage": Jsonb(usage)},
        )
        for _, _, node, devices in gone:
            conn.execute(
                text("DELETE FROM held_devices WHERE node_id = :node AND device = ANY(:devices)"),
                {"node": node, "devices": devices},
            )
        event = Event(at=START, kind=Kind.RESIZE_DONE, group_id=row.group_id, unit_id=row.unit_id)
        add_events(conn, [event])


def assert_world_is_true(site: Site, leader: Leader) -> None:
    assert leader.term is not None
    with site.engine.connect() as conn:
        changes, _ = load_world(conn)
    fresh = World.empty()
    fresh.apply(changes)
    assert leader.term.world == fresh


def test_growth_is_reserved_and_booked_by_its_revision(
    site: Site, leader: Leader, client: redis.Redis, grown: int
) -> None:
    assert leader.run_cycle().is_settled
    row = attempt_of(site)
    assert (row.revision, len(row.places), sorted(row.adding)) == (2, 8, [4, 5, 6, 7])
    assert row.usage["H100-80GB"] == 8
    assert site.held() == 8
    assert_books_agree(site, client)
    assert_world_is_true(site, leader)
    [event] = site.rows("SELECT data FROM events WHERE kind = 'Resized'")
    assert event.data == {"revision": 2, "members": 8, "added": 4, "dropped": 0}


def test_places_of_an_attempt_that_goes_on_are_released_by_name(
    site: Site, leader: Leader, client: redis.Redis, grown: int
) -> None:
    leader.run_cycle()
    drop(site, (1, 6))
    assert leader.apply_releases()
    assert_books_agree(site, client)
    assert_world_is_true(site, leader)
    assert site.held() == 6
    drop(site, (2,))
    site.end(grown)
    assert leader.apply_releases()
    assert_books_agree(site, client)
    assert site.held() == 0


@pytest.mark.parametrize("change", ["cancelled", "resized", "recovering"])
def test_a_group_that_changed_between_plan_and_commit_is_not_resized(
    site: Site, leader: Leader, client: redis.Redis, grown: int, change: str
) -> None:
    leader.read_and_plan()
    leader.reserve()
    if change == "cancelled":
        site.end(grown, Kind.CANCELLED)
    elif change == "resized":
        site.execute("UPDATE attempts SET revision = 2")
    else:
        site.execute("UPDATE units SET status = 'Recovering'")
    with site.engine.begin() as conn:
        add_events(conn, [Event(at=START, kind=Kind.RESIZE_DONE, group_id=grown >> 20, unit_id=grown)])
    leader.resume()
    leader.run_cycle()
    leader.apply_releases()
    assert_books_agree(site, client)
    assert_world_is_true(site, leader)
    if change != "resized":
        assert site.rows("SELECT FROM events WHERE kind = 'Resized'") == []


@pytest.mark.parametrize("step", ["read_and_plan", "reserve", "commit"])
def test_a_leader_that_dies_in_the_middle_of_a_resize_leaves_nothing_half(
    site: Site,
    leader: Leader,
    client: redis.Redis,
    clock: VirtualClock,
    grown: int,
    make_leader: MakeLeader,
    step: str,
) -> None:
    for name in ("read_and_plan", "reserve", "commit"):
        assert getattr(leader, name)()
        if name == step:
            break
    leader.abandon()
    clock.advance(60)
    other = make_leader("w2")
    assert other.run_cycle().is_settled
    assert (len(attempt_of(site).places), attempt_of(site).revision) == (8, 2)
    assert_books_agree(site, client)
    assert_world_is_true(site, other)


@pytest.fixture
def full(site: Site, leader: Leader) -> int:
    """A unit that runs with all of its sixteen members, which fill the site, where priority goes first."""
    site.execute("UPDATE pools SET can_resize = true")
    site.execute('UPDATE queues SET policy = \'{"preempt_within": "lower_priority"}\'')
    with site.engine.begin() as conn:
        bump(conn)
    [group] = site.submit(spec=elastic(16))
    leader.run_cycle()
    unit = unit_id(group, 0)
    with site.engine.begin() as conn:
        conn.execute(text("UPDATE units SET status = 'Running', version = version + 1"))
        add_events(conn, [Event(at=START, kind=Kind.RUNNING, group_id=group, unit_id=unit, is_feed=True)])
    return unit


def receipts(site: Site) -> Sequence[Any]:
    return site.rows("SELECT * FROM preemptions")


def test_members_are_given_up_with_a_receipt_and_the_claimant_starts_on_their_places(
    site: Site, leader: Leader, client: redis.Redis, full: int
) -> None:
    [high] = site.submit(spec=gang(3, priority=5))
    claimant = unit_id(high, 0)
    leader.run_cycle()
    row = attempt_of(site)
    assert (row.revision, sorted(row.dropping), row.evict_target) == (2, [13, 14, 15], None)
    [receipt] = receipts(site)
    assert (receipt.unit_id, receipt.attempt, receipt.revision, receipt.members) == (full, 1, 2, 3)
    assert (receipt.claimant_unit_id, receipt.claimant_group_id) == (claimant, high)
    assert (receipt.entitlement, receipt.lost_gpu_seconds) == ("Priority", 3 * 60)
    assert (receipt.decided_at, receipt.outcome) == (START, None)
    [event] = site.rows("SELECT data FROM events WHERE kind = 'Resized'")
    [(public_id,)] = site.rows("SELECT public_id FROM groups WHERE id = :group", group=high)
    assert (event.data["message"], event.data["claimant"], event.data["entitlement"]) == (
        f"gave up members to group {public_id}",
        str(public_id),
        "Priority",
    )
    drop(site, row.dropping)
    site.execute("UPDATE attempts SET dropping = NULL, drop_kill_at = NULL, usage_without = NULL")
    leader.run_cycle()
    assert site.statuses()[claimant] == "Admitted"
    [receipt] = receipts(site)
    assert (receipt.outcome, receipt.outcome_at) == ("Started", START)
    assert_books_agree(site, client)
    assert_world_is_true(site, leader)


def test_members_that_nobody_used_were_given_up_in_vain(site: Site, leader: Leader, full: int) -> None:
    [high] = site.submit(spec=gang(3, priority=5))
    leader.run_cycle()
    site.cancel_waiting(unit_id(high, 0))
    leader.run_cycle()
    [receipt] = receipts(site)
    assert (receipt.outcome, receipt.outcome_cause) == ("Wasted", "ClaimantEnded")


@pytest.mark.parametrize("change", ["ended", "held"])
def test_nobody_gives_up_members_for_a_claimant_that_does_not_wait_any_more(
    site: Site, leader: Leader, client: redis.Redis, full: int, change: str
) -> None:
    [high] = site.submit(spec=gang(3, priority=5))
    assert leader.read_and_plan()
    if change == "ended":
        site.cancel_waiting(unit_id(high, 0))
    else:
        with site.engine.begin() as conn:
            hold_units(conn, lock_group_units(conn, high), message="held", now=START)
            add_events(conn, [Event(at=START, kind=Kind.HELD, group_id=high, unit_id=unit_id(high, 0))])
    leader.resume()
    assert (attempt_of(site).revision, receipts(site)) == (1, [])
    leader.run_cycle()
    assert site.rows("SELECT FROM claims") == []
    assert_books_agree(site, client)
    assert_world_is_true(site, leader)


def test_who_gave_up_members_is_not_told_for_whom_but_for_its_own(
    site: Site, leader: Leader, full: int
) -> None:
    site.submit(spec=gang(3, priority=5))
    site.execute("UPDATE groups SET owner = 'x' WHERE priority = 5")
    leader.run_cycle()
    [event] = site.rows("SELECT data FROM events WHERE kind = 'Resized'")
    assert event.data["message"] == "gave up members to another group"
    assert "claimant" not in event.data
