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
from tests.integration.leader.conftest import MakeLeader
from tests.integration.leader.site import START, Site, bump
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
