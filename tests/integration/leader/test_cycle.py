"""Cycles of one leader on real stores: admissions, ends, publication, and rest."""

from __future__ import annotations

import redis
from sqlalchemy import Engine, text

from service.clock import VirtualClock
from service.domain.reasons import Code
from service.domain.unit import unit_id
from service.inventory import keys
from service.inventory.ledger import Ledger
from service.inventory.verdicts import read_queue
from tests.integration.leader.conftest import MakeLeader
from tests.integration.leader.site import START, Site, bump, gang, independent
from workers.admission import Leader


def held_in_ledger(client: redis.Redis) -> set[tuple[int, int]]:
    state = Ledger(client).read()
    assert state is not None
    return set(state.holders().values())


def test_a_gang_is_admitted_whole_with_all_that_belongs_to_it(
    site: Site, leader: Leader, client: redis.Redis
) -> None:
    [group] = site.submit(spec=gang(6, time_limit_seconds=3600, start_timeout_seconds=60))
    unit = unit_id(group, 0)
    result = leader.run_cycle()
    assert (result.is_leader, result.is_settled, result.admitted) == (True, True, 1)
    assert site.statuses() == {unit: "Admitted"}
    [attempt] = site.rows("SELECT * FROM attempts")
    assert (attempt.dispatch, attempt.generation, attempt.revision, attempt.attempt) == ("Waiting", 1, 1, 1)
    assert (attempt.start_deadline_at - START).total_seconds() == 60
    assert (attempt.time_limit_at - START).total_seconds() == 3600
    assert len(attempt.places) == 6
    assert site.held() == 6
    assert held_in_ledger(client) == {(unit, 1)}
    [event] = site.rows("SELECT * FROM events WHERE kind = 'Admitted'")
    assert (event.unit_id, event.is_feed, event.actor) == (unit, False, "muster")
    assert client.llen(keys.dispatcher_bell(site.pool_id)) == 1


def test_what_does_not_fit_holds_nothing_and_is_told_why(
    site: Site, leader: Leader, client: redis.Redis
) -> None:
    [first] = site.submit(spec=gang(2, 8))
    [second] = site.submit(spec=gang(2, 8))
    assert leader.run_cycle().waiting == 1
    assert site.statuses() == {unit_id(first, 0): "Admitted", unit_id(second, 0): "Pending"}
    published = read_queue(client, site.queue_id)
    assert published is not None
    assert published.position_of(second) == 1
    verdict = published.verdict_for(second)
    assert verdict is not None
    assert [blocker.code for blocker in published.verdicts[verdict]] == [Code.INSUFFICIENT_GPUS]


def test_members_leave_a_waiting_range_from_below(site: Site, leader: Leader) -> None:
    [group] = site.submit(spec=independent(20))
    assert leader.run_cycle().admitted == 16
    rows = site.rows("SELECT id, first_index, last_index, status, version FROM units ORDER BY last_index")
    assert [(row.first_index, row.last_index, row.status) for row in rows] == [
        *((index, index, "Admitted") for index in range(16)),
        (16, 19, "Pending"),
    ]
    for index in range(4):
        site.end(unit_id(group, index))
    assert leader.run_cycle().admitted == 4
    assert [row.status for row in site.rows("SELECT status FROM units WHERE status = 'Pending'")] == []
    assert site.rows("SELECT first_index, last_index FROM units WHERE id = :id", id=unit_id(group, 19)) == [
        (19, 19)
    ]


def test_an_end_frees_its_places_for_the_next(site: Site, leader: Leader, client: redis.Redis) -> None:
    first, second = (site.submit(spec=gang(2, 8))[0] for _ in range(2))
    leader.run_cycle()
    site.end(unit_id(first, 0))
    assert leader.run_cycle().admitted == 1
    assert held_in_ledger(client) == {(unit_id(second, 0), 1)}


def test_releases_are_applied_also_when_nothing_waits(
    site: Site, leader: Leader, client: redis.Redis
) -> None:
    """R5."""
    [group] = site.submit()
    leader.run_cycle()
    assert not leader.apply_releases()
    site.end(unit_id(group, 0))
    assert held_in_ledger(client) == {(unit_id(group, 0), 1)}
    assert leader.apply_releases()
    assert held_in_ledger(client) == set()
    assert not leader.apply_releases()


def test_a_requeued_unit_gets_its_next_attempt(site: Site, leader: Leader, client: redis.Redis) -> None:
    [group] = site.submit()
    leader.run_cycle()
    site.requeue(unit_id(group, 0))
    assert leader.run_cycle().admitted == 1
    assert held_in_ledger(client) == {(unit_id(group, 0), 2)}
    assert [row.attempt for row in site.rows("SELECT attempt FROM attempts")] == [2]


def test_cycles_that_change_nothing_write_nothing(
    site: Site, leader: Leader, client: redis.Redis, clock: VirtualClock
) -> None:
    site.submit(spec=gang(2, 8))
    site.submit(50, spec=gang(1, 8))
    leader.run_cycle()
    leader.run_cycle()
    books, offset = written(site, leader), commands(client)
    for _ in range(20):
        clock.advance(1)
        result = leader.run_cycle()
        assert (result.is_settled, result.admitted, result.waiting) == (True, 0, 50)
    assert written(site, leader) == books
    assert {name for name, count in commands(client).items() if count != offset.get(name)} <= {
        "cmdstat_hmget",
        "cmdstat_info",
    }


def written(site: Site, leader: Leader) -> list[tuple[str, int]]:
    """Rows changed in every table but the lease's. A backend tells what it wrote some seconds later,
    unless it is asked to."""
    site.execute("SELECT pg_stat_force_next_flush()")
    assert leader.term is not None
    with leader.term.conn.begin():
        leader.term.conn.execute(text("SELECT pg_stat_force_next_flush()"))
    return list(
        site.rows(
            "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables"
            " WHERE relname NOT LIKE 'leadership%' ORDER BY 1"
        )
    )


def commands(client: redis.Redis) -> dict[str, int]:
    return {name: stats["calls"] for name, stats in client.info("commandstats").items()}


def test_a_lost_device_is_lost_in_the_ledger_until_it_is_found(
    site: Site, leader: Leader, client: redis.Redis, engine: Engine
) -> None:
    leader.run_cycle()
    for value, expected in (("now()", {(site.node_ids[0], 3)}), ("NULL", set())):
        with engine.begin() as conn:
            conn.execute(
                text(f"UPDATE devices SET lost_at = {value} WHERE node_id = :node AND device = 3"),
                {"node": site.node_ids[0]},
            )
            bump(conn)
        leader.run_cycle()
        state = Ledger(client).read()
        assert state is not None
        assert state.lost == expected


def test_a_new_node_is_in_the_ledger_before_anything_is_reserved_on_it(
    site: Site, leader: Leader, client: redis.Redis
) -> None:
    site.submit(3, spec=gang(1, 8))
    assert leader.run_cycle().admitted == 2
    added = site.add_node("n3")
    assert leader.run_cycle().admitted == 1
    state = Ledger(client).read()
    assert state is not None
    assert {node for node, _ in state.holders()} == {*site.node_ids, added}


def test_a_wait_grows_over_rebuilds_and_takeovers(
    site: Site, make_leader: MakeLeader, client: redis.Redis, clock: VirtualClock
) -> None:
    site.submit(spec=gang(2, 8))
    [waits] = site.submit(spec=gang(2, 8))
    first = make_leader("w1")
    first.run_cycle()
    for name in ("w1", "w2"):
        first.close()
        clock.advance(3600)
        first = make_leader(name)
        first.run_cycle()
        # A new node has the ledger rebuilt.
        site.add_node(f"for-{name}", gpus=0)
        clock.advance(3600)
        first.run_cycle()
        published = read_queue(client, site.queue_id)
        assert published is not None
        assert published.verdict_for(waits) is not None
        assert published.since == ((START,),)
        assert published.epoch > 1
