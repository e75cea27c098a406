"""What the rules of consistency close, each by the interleaving that would break without it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
from sqlalchemy import Engine, text

from service.clock import VirtualClock
from service.domain.unit import unit_id
from service.inventory import keys
from service.inventory.client import make_client
from service.inventory.ledger import Ledger
from service.inventory.verdicts import read_queue
from service.settings import Settings
from service.store.config import raise_config_version
from tests.integration.leader.conftest import MakeLeader
from tests.integration.leader.site import Site, bump, cancel_waiting, gang, independent
from tests.lines import PostgresLine, Talk
from workers.admission import Leader, StaleWrite

#: In a transaction that is rolled back: until then nobody else can hold anything.
HOLD_EVERYTHING = text("INSERT INTO held_devices SELECT node_id, device, 0 FROM devices")


def holders(client: redis.Redis) -> set[tuple[int, int]]:
    state = Ledger(client).read()
    assert state is not None
    return set(state.holders().values())


def epoch_of(leader: Leader) -> int | None:
    return None if leader.term is None else leader.term.epoch


def assert_books_agree(site: Site, client: redis.Redis) -> None:
    """PostgreSQL and the ledger name the same holder of each device."""
    state = Ledger(client).read()
    assert state is not None
    ledger = {device: unit for device, (unit, _) in state.holders().items()}
    store = {(row.node_id, row.device): row.unit_id for row in site.rows("SELECT * FROM held_devices")}
    assert ledger == store


# ---------------------------------------------------------------- L2, W4: between plan and commit
def test_a_configuration_that_moved_between_plan_and_commit_stops_the_commit(
    site: Site, leader: Leader, client: redis.Redis, engine: Engine
) -> None:
    """L2: a queue that was stopped after the plan starts nothing, and says so in the same cycle."""
    [group] = site.submit()
    assert leader.read_and_plan()
    with engine.begin() as conn:
        conn.execute(text("UPDATE queues SET stop = 'hold'"))
        bump(conn)
    result = leader.resume()
    assert result.is_leader
    assert result.is_settled
    assert site.statuses() == {unit_id(group, 0): "Pending"}
    assert holders(client) == set()
    published = read_queue(client, site.queue_id)
    assert published is not None
    assert published.verdict_for(group) is not None
    assert leader.stale_refusals == []


def test_a_change_of_the_configuration_waits_for_a_commit_under_way(
    site: Site, leader: Leader, engine: Engine
) -> None:
    """L2: a limit is never lowered between a cycle's check and its commit."""
    site.submit()
    leader.read_and_plan()
    leader.reserve()
    with ThreadPoolExecutor() as pool, engine.connect() as blocker:
        # The commit stops at its held devices, in the middle: it waits for what becomes of these.
        transaction = blocker.begin()
        blocker.execute(HOLD_EVERYTHING)
        commit = pool.submit(leader.commit)
        wait_for_lock(site)
        change = pool.submit(site.execute, "UPDATE config SET version = version + 1")
        wait_for_lock(site, count=2)
        assert not change.done()
        transaction.rollback()
        assert commit.result(10)
        change.result(10)
    assert site.held() == 1


def wait_for_lock(site: Site, count: int = 1) -> None:
    """Until so many connections wait for a lock."""
    for _ in range(500):
        [row] = site.rows(
            "SELECT count(*) AS n FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        if row.n >= count:
            return
        threading.Event().wait(0.01)
    raise AssertionError("nobody waits for a lock")


def test_a_unit_cancelled_between_plan_and_commit_gives_its_places_back(
    site: Site, leader: Leader, client: redis.Redis
) -> None:
    stays, goes = site.submit(2)
    leader.read_and_plan()
    leader.reserve()
    site.cancel_waiting(unit_id(goes, 0))
    result = leader.resume()
    assert (result.is_settled, result.admitted) == (True, 1)
    assert site.statuses() == {unit_id(stays, 0): "Admitted", unit_id(goes, 0): "Cancelled"}
    assert holders(client) == {(unit_id(stays, 0), 1)}


@pytest.mark.parametrize("who_is_first", ["split", "cancel"])
def test_a_cancel_and_the_split_of_a_range_happen_one_after_the_other(
    site: Site, leader: Leader, client: redis.Redis, engine: Engine, who_is_first: str
) -> None:
    """W4: a cancel that waited for the split must see the members that were split off."""
    [group] = site.submit(spec=independent(20))
    row = unit_id(group, 19)
    leader.read_and_plan()
    leader.reserve()
    with ThreadPoolExecutor() as pool, engine.connect() as other:
        if who_is_first == "cancel":
            transaction = other.begin()
            cancel_waiting(other, row)
            commit = pool.submit(leader.commit)
            wait_for_lock(site)
            transaction.commit()
            assert not commit.result(10)
            assert site.statuses() == {row: "Cancelled"}
            return
        blocker = other.begin()
        other.execute(HOLD_EVERYTHING)
        commit = pool.submit(leader.commit)
        wait_for_lock(site)
        seen = pool.submit(cancel_all, engine, group)
        wait_for_lock(site, count=2)
        blocker.rollback()
        assert commit.result(10)
        assert seen.result(10) == {"Admitted": 16, "Pending": 1}


def cancel_all(engine: Engine, group: int) -> dict[str, int]:
    """What a cancel of the whole group sees once it has its lock."""
    with engine.begin() as conn:
        conn.execute(text("SELECT 1 FROM groups WHERE id = :id FOR NO KEY UPDATE"), {"id": group})
        rows = conn.execute(
            text("SELECT status, count(*) AS n FROM units WHERE group_id = :id GROUP BY 1"), {"id": group}
        )
        return {row.status: row.n for row in rows}


def test_a_deadlock_with_somebody_else_is_no_failure(
    site: Site, leader: Leader, client: redis.Redis, engine: Engine
) -> None:
    """W4: the database ends the leader's transaction, of which nothing has happened: it is made again."""
    units = [unit_id(group, 0) for group in site.submit(2)]
    leader.read_and_plan()
    leader.reserve()
    lock = text("UPDATE units SET message = 'locked' WHERE id = :id")
    with ThreadPoolExecutor() as pool, engine.connect() as other:
        transaction = other.begin()
        other.execute(lock, {"id": units[1]})
        commit = pool.submit(leader.commit)
        wait_for_lock(site)
        other.execute(lock, {"id": units[0]})
        transaction.commit()
        assert commit.result(20)
    assert set(site.statuses().values()) == {"Admitted"}
    assert_books_agree(site, client)


def test_the_fence_comes_before_the_groups(site: Site, leader: Leader, engine: Engine) -> None:
    """L2, W4: who loses devices moves the configuration, then locks units; the other order deadlocks."""
    [group] = site.submit(spec=independent(2))
    leader.read_and_plan()
    leader.reserve()
    with ThreadPoolExecutor() as pool, engine.connect() as other:
        transaction = other.begin()
        raise_config_version(other)
        commit = pool.submit(leader.commit)
        try:
            wait_for_lock(site)
            other.execute(text("SELECT FROM groups WHERE id = :id FOR NO KEY UPDATE NOWAIT"), {"id": group})
        finally:
            transaction.rollback()
        assert commit.result(10)
    assert set(site.statuses().values()) == {"Admitted"}


# ---------------------------------------------------------------- L3: two leaders
@pytest.mark.parametrize("stop_after", ["read", "reserve"])
def test_a_frozen_leader_is_fenced_out_of_both_stores(
    site: Site,
    leader: Leader,
    make_leader: MakeLeader,
    client: redis.Redis,
    clock: VirtualClock,
    stop_after: str,
) -> None:
    groups = site.submit(4, spec=gang(1, 4))
    leader.read_and_plan()
    if stop_after == "reserve":
        leader.reserve()
        assert len(holders(client)) == 4
    clock.advance(11)
    [urgent] = site.submit(spec=gang(2, 8, priority=10))
    successor = make_leader("w2")
    assert successor.run_cycle().admitted == 1
    assert holders(client) == {(unit_id(urgent, 0), 1)}
    result = leader.resume()
    assert not result.is_leader
    by = "ledger" if stop_after == "read" else "store"
    assert leader.stale_refusals == [StaleWrite(holder="w1", epoch=1, by=by)]
    assert {unit: status for unit, status in site.statuses().items() if status != "Pending"} == {
        unit_id(urgent, 0): "Admitted"
    }
    assert len(groups) == 4
    assert_books_agree(site, client)
    # The one that was fenced out does nothing while the other leads, and is of use again later.
    assert not leader.run_cycle().is_leader
    clock.advance(30)
    assert leader.run_cycle().is_leader
    assert_books_agree(site, client)


def test_takeover_while_the_old_leader_is_inside_its_transaction(
    site: Site,
    leader: Leader,
    make_leader: MakeLeader,
    client: redis.Redis,
    clock: VirtualClock,
    engine: Engine,
) -> None:
    """L3: it waits in the middle of its COPYs, holding the epoch; its backend is ended."""
    [group] = site.submit()
    leader.read_and_plan()
    leader.reserve()
    with ThreadPoolExecutor() as pool, engine.connect() as blocker:
        transaction = blocker.begin()
        blocker.execute(HOLD_EVERYTHING)
        commit = pool.submit(leader.commit)
        wait_for_lock(site)
        clock.advance(11)
        successor = make_leader("w2")
        assert successor.hold_lease()
        assert not commit.result(10)
        transaction.rollback()
    assert [refusal.by for refusal in leader.stale_refusals] == ["store"]
    assert site.statuses() == {unit_id(group, 0): "Pending"}
    assert holders(client) == set()
    assert successor.run_cycle().admitted == 1
    assert_books_agree(site, client)


def test_two_leaders_that_race_admit_everything_once(
    site: Site, make_leader: MakeLeader, client: redis.Redis, clock: VirtualClock
) -> None:
    site.submit(40, spec=gang(1, 1))
    leaders = [make_leader("w1"), make_leader("w2")]

    def run(leader: Leader) -> int:
        return sum(leader.run_cycle().admitted for _ in range(10))

    with ThreadPoolExecutor() as pool:
        admitted = sum(pool.map(run, leaders))
    assert admitted == 16
    assert site.held() == 16
    assert site.rows("SELECT count(*) FROM events WHERE kind = 'Admitted'")[0][0] == 16
    assert_books_agree(site, client)


# ---------------------------------------------------------------- L4, W3: lost connections
@pytest.mark.parametrize("has_committed", [True, False])
def test_a_commit_whose_outcome_is_unknown_is_found_out(
    site: Site,
    database_url: str,
    server_folder: Path,
    client: redis.Redis,
    clock: VirtualClock,
    has_committed: bool,
) -> None:
    """L4: the leader only sees its connection end. PostgreSQL has committed, or is still about to."""
    [group] = site.submit()
    if not has_committed:
        site.execute(
            "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(30); RETURN NULL; END $$"
        )
        site.execute(
            "CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON attempts DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION linger()"
        )

    def leave(talk: Talk) -> None:
        """PostgreSQL hears it, and nobody waits for its answer."""
        talk.server.sendall(talk.message)
        talk.cut()

    with PostgresLine(database_url, server_folder) as line:
        leader = Leader(line.url, client, clock=clock, settings=Settings(), name="w1")
        assert leader.read_and_plan()
        assert leader.reserve()
        if has_committed:
            line.after(b"COMMIT", Talk.cut)
        else:
            line.before(b"COMMIT", leave)
        assert not leader.commit()
        line.heal()
        # Nothing is released before the outcome is known.
        assert epoch_of(leader) is None
        assert holders(client) == {(unit_id(group, 0), 1)}
        if not has_committed:
            assert site.statuses() == {unit_id(group, 0): "Pending"}
            assert leader.hold_lease()
            site.execute("DROP TRIGGER linger ON attempts")
        result = leader.run_cycle()
        assert (result.is_settled, result.admitted) == (True, 0 if has_committed else 1)
        assert epoch_of(leader) == 2
        assert leader.stale_refusals == []
        leader.abandon()
    assert site.statuses() == {unit_id(group, 0): "Admitted"}
    assert site.rows("SELECT count(*) FROM events WHERE kind = 'Admitted'")[0][0] == 1
    assert holders(client) == {(unit_id(group, 0), 1)}
    assert_books_agree(site, client)


def test_a_new_connection_means_a_full_load(
    site: Site, leader: Leader, client: redis.Redis, engine: Engine
) -> None:
    """W3: what a kept snapshot counts as seen may be handed out again after a crash."""
    leader.run_cycle()
    assert leader.term is not None
    first = leader.term
    with engine.connect() as slow:
        transaction = slow.begin()
        slow.execute(text("SELECT 1"))
        site.rows(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'muster leader'"
        )
        transaction.rollback()
    [group] = site.submit()
    assert leader.run_cycle().admitted == 1
    assert leader.term is not None
    assert leader.term is not first
    assert leader.term.epoch == first.epoch + 1
    assert holders(client) == {(unit_id(group, 0), 1)}


# ---------------------------------------------------------------- R3, R4: a ledger that disagrees
def test_an_emptied_ledger_is_rebuilt_and_everything_published(
    site: Site, leader: Leader, client: redis.Redis
) -> None:
    [first] = site.submit(spec=gang(2, 8))
    [second] = site.submit(spec=gang(2, 8))
    leader.run_cycle()
    client.flushall()
    assert leader.run_cycle().is_settled
    assert holders(client) == {(unit_id(first, 0), 1)}
    published = read_queue(client, site.queue_id)
    assert published is not None
    assert published.position_of(second) == 1
    assert_books_agree(site, client)


def test_a_ledger_emptied_between_plan_and_reserve_stops_the_cycle(
    site: Site, leader: Leader, client: redis.Redis
) -> None:
    """R2, R3: nothing is reserved in a ledger that is not known; the next round does it right."""
    [group] = site.submit()
    leader.read_and_plan()
    client.flushall()
    assert not leader.reserve()
    assert site.statuses() == {unit_id(group, 0): "Pending"}
    assert leader.run_cycle().admitted == 1
    assert leader.stale_refusals == []
    assert_books_agree(site, client)


def test_a_ledger_that_has_another_holder_stops_the_cycle(
    site: Site, leader: Leader, client: redis.Redis
) -> None:
    """R3: a Conflict means that somebody else wrote; the books are put right by what PostgreSQL says."""
    leader.run_cycle()
    [group] = site.submit(spec=gang(1, 8))
    [incarnation] = client.hmget(keys.LEDGER, ["incarnation"])
    assert isinstance(incarnation, bytes)
    held = keys.ledger_part(incarnation.decode(), "held")
    for node in site.node_ids:
        client.hset(held, f"{node}.0", "99/1")
    result = leader.run_cycle()
    assert (result.is_settled, result.admitted) == (True, 1)
    assert holders(client) == {(unit_id(group, 0), 1)}
    assert_books_agree(site, client)


def test_postgres_refuses_a_second_hold_though_the_ledger_has_none(
    site: Site, leader: Leader, client: redis.Redis
) -> None:
    """R6, R3: a unique violation at the commit; the next full load has it."""
    [first] = site.submit(spec=gang(1, 8))
    leader.run_cycle()
    [node] = {row.node_id for row in site.rows("SELECT node_id FROM held_devices")}
    [other] = set(site.node_ids) - {node}
    # Somebody moves the hold in PostgreSQL alone: the leader believes that node to be free.
    site.execute("UPDATE held_devices SET node_id = :other WHERE node_id = :node", other=other, node=node)
    site.execute(
        "UPDATE attempts SET places = jsonb_set(places, '{0,2}', to_jsonb(CAST(:other AS bigint)))",
        other=other,
    )
    [second] = site.submit(spec=gang(1, 8))
    assert leader.run_cycle().admitted == 1
    assert site.statuses() == {
        unit_id(first, 0): "Admitted",
        unit_id(second, 0): "Admitted",
    }
    assert site.held() == 16
    assert_books_agree(site, client)


def test_verdicts_that_redis_has_lost_are_published_again(
    site: Site, leader: Leader, client: redis.Redis
) -> None:
    """It may lose its last second, in which the ledger need not have changed."""
    site.submit(spec=gang(2, 8))
    [waits] = site.submit(spec=gang(2, 8))
    leader.run_cycle()
    client.delete(keys.VERDICT_FENCE, keys.verdict(site.queue_id), keys.VERDICT_NUMBERS)
    leader.run_cycle()
    published = read_queue(client, site.queue_id)
    assert published is not None
    assert published.position_of(waits) == 1
    assert client.exists(keys.VERDICT_NUMBERS)


def test_redis_that_is_away_uses_up_no_epoch(site: Site, database_url: str, clock: VirtualClock) -> None:
    nobody = make_client("unix:///nonexistent/valkey.sock")
    leader = Leader(database_url, nobody, clock=clock, settings=Settings(), name="w1")
    for _ in range(3):
        with pytest.raises(redis.ConnectionError):
            leader.run_cycle()
    assert site.rows("SELECT epoch FROM leadership") == [(0,)]
    leader.abandon()
