"""What a World is read from: everything once, then what changed, of one instant (W1, W2)."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Engine, text

from service.admission.plan import Plan
from service.admission.resident import World
from service.domain.queue import Quota
from service.domain.unit import unit_id
from service.operations.commit import Committed, commit_plan
from service.operations.lead import take_lease
from service.operations.load_world import load_changes, load_world
from service.store.feed import _SINCE, open_snapshot, read_changes_within, read_position
from service.store.lease import Fence
from tests.integration.leader.site import MODEL, START, Site, admission, bump, gang, independent, submit
from workers.admission import Leader


def test_a_full_load_reads_configuration_units_and_shapes(site: Site, direct: Connection) -> None:
    [first] = site.submit(spec=gang(2, priority=7, time_limit_seconds=60))
    [ended] = site.submit()
    site.cancel_waiting(unit_id(ended, 0))
    changes, position = load_world(direct)
    assert changes.configuration is not None
    assert {node.name for node in changes.configuration.nodes.values()} == {"n1", "n2"}
    assert [len(node.devices) for node in changes.configuration.nodes.values()] == [8, 8]
    assert changes.configuration.queues[site.queue_id].quota == Quota()
    assert list(changes.pending) == [unit_id(first, 0)]
    waiting = changes.pending[unit_id(first, 0)]
    assert (waiting.priority, waiting.time_limit_seconds, waiting.submitted_at) == (7, 60, START)
    assert changes.shapes[waiting.shape_id] == gang(2).shape()
    assert position.configuration.version == changes.configuration.version


def test_quotas_are_read_as_they_are_meant(site: Site, direct: Connection) -> None:
    site.execute("UPDATE queues SET has_quota = true")
    site.execute(
        "INSERT INTO quotas VALUES (:queue, :model, 4, 6), (:queue, 'cpus', NULL, 9000)",
        queue=site.queue_id,
        model=MODEL,
    )
    configuration = load_world(direct)[0].configuration
    assert configuration is not None
    assert configuration.queues[site.queue_id].quota == Quota(
        nominal={MODEL: 4}, limit={MODEL: 6, "cpus": 9000}
    )


def test_devices_of_a_node_that_is_down_count_as_lost(site: Site, direct: Connection) -> None:
    one, two = site.node_ids
    site.execute("UPDATE nodes SET is_ready = false WHERE id = :id", id=one)
    site.execute("UPDATE devices SET lost_at = now() WHERE node_id = :id AND device = 3", id=two)
    configuration = load_world(direct)[0].configuration
    assert configuration is not None
    assert all(device.is_lost for device in configuration.nodes[one].devices)
    assert [device.index for device in configuration.nodes[two].devices if device.is_lost] == [3]


def test_nothing_new_reads_nothing(site: Site, direct: Connection) -> None:
    site.submit(3)
    _, position = load_world(direct)
    changes, after = load_changes(direct, position)
    assert (changes.configuration, changes.pending, changes.running, changes.gone) == (
        None,
        {},
        {},
        frozenset(),
    )
    assert after.configuration.version == position.configuration.version


def test_the_feed_brings_each_change_once_as_its_present_state(site: Site, direct: Connection) -> None:
    _, position = load_world(direct)
    stays, goes = site.submit(2, spec=gang(3))
    site.cancel_waiting(unit_id(goes, 0))
    changes, position = load_changes(direct, position)
    assert list(changes.pending) == [unit_id(stays, 0)]
    assert changes.gone == {unit_id(goes, 0)}
    assert list(changes.shapes.values()) == [gang(3).shape()]
    changes, _ = load_changes(direct, position)
    assert not changes.pending
    assert not changes.gone


def test_a_transaction_that_began_early_and_committed_late_is_not_missed(
    site: Site, engine: Engine, direct: Connection
) -> None:
    """W1: others with higher numbers have been read before it commits."""
    site.submit()  # Its shape is there, so the transactions below need not wait for each other.
    with engine.connect() as slow:
        transaction = slow.begin()
        [late] = submit(slow, site.queue_id)
        _, position = load_world(direct)
        [quick] = site.submit()
        changes, position = load_changes(direct, position)
        assert list(changes.pending) == [unit_id(quick, 0)]
        changes, position = load_changes(direct, position)
        assert not changes.pending
        transaction.commit()
    changes, position = load_changes(direct, position)
    assert list(changes.pending) == [unit_id(late, 0)]
    assert not load_changes(direct, position)[0].pending


def test_a_cycle_finds_what_was_committed_late_and_does_not_wait_for_it(
    site: Site, engine: Engine, leader: Leader
) -> None:
    """W1: cycles go on past a transaction that stays open, and it needs no full load when it commits."""
    [first] = site.submit(spec=gang(1, 4))
    assert leader.run_cycle().admitted == 1
    term = leader.term
    with engine.connect() as slow:
        transaction = slow.begin()
        [late] = submit(slow, site.queue_id, spec=gang(1, 4))
        for _ in range(3):
            site.submit(spec=gang(1, 4))
            assert leader.run_cycle().admitted == 1
        transaction.commit()
    site.end(unit_id(first, 0))
    assert leader.run_cycle().admitted == 1
    assert site.statuses()[unit_id(late, 0)] == "Admitted"
    assert leader.term is term


def test_what_the_feed_brings_twice_changes_nothing_the_second_time(
    site: Site, leader: Leader, direct: Connection
) -> None:
    """W2: present states, which replace what the World has."""
    starts, ends = (unit_id(group, 0) for group in site.submit(2, spec=gang(2, 2)))
    assert leader.run_cycle().admitted == 2
    waits = unit_id(site.submit()[0], 0)
    changes, position = load_world(direct)
    world = World.empty()
    world.apply(changes)
    site.submit(2)
    site.end(ends)
    site.requeue(starts)
    site.cancel_waiting(waits)
    changes, _ = load_changes(direct, position)
    assert {freed.unit_id for freed in world.apply(changes)} == {starts, ends}
    once = world.snapshot()
    assert world.apply(changes) == ()
    assert world.snapshot() == once


def test_what_was_rolled_back_is_never_read(site: Site, engine: Engine, direct: Connection) -> None:
    _, position = load_world(direct)
    with engine.connect() as conn:
        transaction = conn.begin()
        submit(conn, site.queue_id)
        transaction.rollback()
    [kept] = site.submit()
    assert list(load_changes(direct, position)[0].pending) == [unit_id(kept, 0)]


def test_a_configuration_that_moved_comes_with_the_units_of_its_instant(
    site: Site, engine: Engine, direct: Connection
) -> None:
    _, position = load_world(direct)
    with engine.begin() as conn:
        conn.execute(text("UPDATE nodes SET is_cordoned = true WHERE id = :id"), {"id": site.node_ids[0]})
        bump(conn)
    changes, position = load_changes(direct, position)
    assert changes.configuration is not None
    assert changes.configuration.nodes[site.node_ids[0]].is_cordoned
    assert load_changes(direct, position)[0].configuration is None


def test_running_requeued_and_ended_units_arrive_as_what_they_are(site: Site, direct: Connection) -> None:
    group_ids = site.submit(3)
    changes, position = load_world(direct)
    admissions = [
        admission(
            changes.pending[unit_id(group, 0)], pool_id=site.pool_id, node_id=site.node_ids[0], device=i
        )
        for i, group in enumerate(group_ids)
    ]
    epoch = take_lease(direct, holder="w1", now=START, lease_seconds=10)
    assert epoch is not None
    outcome = commit_plan(
        direct,
        Plan(
            config_version=position.configuration.version, admissions=tuple(admissions), queues={}, numbers={}
        ),
        independent_groups=(),
        fence=Fence(epoch, position.configuration.version),
        now=START,
        cycle=1,
    )
    assert isinstance(outcome, Committed)
    # The leader's own admissions are not in its feed.
    changes, position = load_changes(direct, position)
    assert not changes.running
    running, again, ended = (unit_id(group, 0) for group in group_ids)
    site.requeue(again)
    site.end(ended)
    changes, _ = load_changes(direct, position)
    assert changes.pending[again].attempt == 2
    assert changes.gone == {ended}
    assert set(load_world(direct)[0].running) == {running}


def test_a_range_of_waiting_members_is_one_unit(site: Site, direct: Connection) -> None:
    [group] = site.submit(spec=independent(10_000))
    changes, _ = load_world(direct)
    [unit] = changes.pending.values()
    assert (unit.id, unit.first_index, unit.last_index) == (unit_id(group, 9_999), 0, 9_999)


def test_the_feed_does_not_look_at_old_events(site: Site, direct: Connection) -> None:
    """Over 100,000 old events, analyzed or not, it reads a handful of pages."""
    site.execute(
        "INSERT INTO events (is_feed, at, kind, group_id, unit_id)"
        " SELECT true, now(), 'Submitted', i, i << 20 FROM generate_series(1, 100000) AS i"
    )
    for analyze in (False, True):
        if analyze:
            site.execute("ANALYZE events")
        with direct.begin():
            position = read_position(direct)
        [group] = site.submit()
        with direct.begin():
            open_snapshot(direct)
            assert read_changes_within(direct, position.snapshot)[0].unit_ids == {unit_id(group, 0)}
            values = {"xmax": position.snapshot.xmax, "xip": "{}"}
            explained = direct.exec_driver_sql("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + _SINCE, values)
            plan = explained.scalar_one()[0]
        assert "Seq Scan" not in [node["Node Type"] for node in nodes(plan["Plan"])], json.dumps(plan)
        buffers = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
        assert buffers < 40


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """A plan's nodes over the events; the one-row configuration may be read in any way."""
    below = [node for child in plan.get("Plans", []) for node in nodes(child)]
    return below if plan.get("Relation Name") == "config" else [plan, *below]
