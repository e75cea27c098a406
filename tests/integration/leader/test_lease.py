"""One leader: taking, renewing and losing the lease (L1, L3)."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import psycopg
import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from service.operations.lead import get_settled_lease as get_lease
from service.operations.lead import give_up_lease, renew_lease, take_lease
from tests.integration.leader.site import START, Site, lock_fence

LATER = START + timedelta(seconds=11)


def take(
    conn: Connection, holder: str, now: datetime = START, *, above: int = 0, from_the_gone: bool = False
) -> int | None:
    return take_lease(
        conn, holder=holder, now=now, lease_seconds=10, above=above, from_the_gone=from_the_gone
    )


def test_the_first_to_come_leads_and_others_wait(direct_engine: Engine) -> None:
    with direct_engine.connect() as one, direct_engine.connect() as two:
        assert take(one, "w1") == 1
        assert take(two, "w2") is None
        assert get_lease(two).holder == "w1"


def test_an_expired_lease_is_free_and_gets_a_new_epoch(direct_engine: Engine) -> None:
    with direct_engine.connect() as one, direct_engine.connect() as two:
        assert take(one, "w1") == 1
        assert take(two, "w2", now=LATER) == 2
        assert get_lease(two).expires_at == LATER + timedelta(seconds=10)


def test_a_holder_may_take_its_own_lease_again(direct_engine: Engine) -> None:
    with direct_engine.connect() as one, direct_engine.connect() as two:
        assert take(one, "w1") == 1
        assert take(two, "w1") == 2


def test_a_lease_given_up_is_free_at_once(direct_engine: Engine) -> None:
    with direct_engine.connect() as one, direct_engine.connect() as two:
        assert take(one, "w1") == 1
        assert give_up_lease(one, epoch=1, now=START)
        assert take(two, "w2") == 2


def test_a_lease_whose_holder_has_gone_is_free_for_those_who_ask(direct_engine: Engine) -> None:
    with direct_engine.connect() as two:
        with direct_engine.connect() as one:
            assert take(one, "w1") == 1
            assert take(two, "w2", from_the_gone=True) is None
        wait_until_gone(two)
        assert take(two, "w2") is None
        assert take(two, "w2", from_the_gone=True) == 2


def wait_until_gone(conn: Connection) -> None:
    for _ in range(100):
        if not get_lease(conn).has_backend:
            return
        threading.Event().wait(0.02)
    raise AssertionError("the backend of a closed connection is still there")


def test_only_one_of_many_takes_a_free_lease(direct_engine: Engine) -> None:
    gate = threading.Barrier(6)
    taken: list[int | None] = []

    def race(number: int) -> None:
        with direct_engine.connect() as conn:
            gate.wait()
            taken.append(take(conn, f"w{number}"))

    threads = [threading.Thread(target=race, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epoch for epoch in taken if epoch is not None) == [1]


def test_renewing_prolongs_only_the_lease_of_its_epoch(direct_engine: Engine) -> None:
    with direct_engine.connect() as one, direct_engine.connect() as two, direct_engine.connect() as keeper:
        assert take(one, "w1") == 1
        assert take(two, "w2", now=LATER) == 2
        before = get_lease(two)
        assert not renew_lease(keeper, epoch=1, now=LATER, lease_seconds=99)
        assert get_lease(two) == before
        assert renew_lease(keeper, epoch=2, now=LATER, lease_seconds=99)
        assert get_lease(two).expires_at == LATER + timedelta(seconds=99)
        one.invalidate()


def test_renewing_does_not_wait_for_a_transaction_that_holds_the_epoch(direct_engine: Engine) -> None:
    """L1: the expiry is a row of its own."""
    with direct_engine.connect() as leader, direct_engine.connect() as keeper:
        assert take(leader, "w1") == 1
        with leader.begin():
            lock_fence(leader)
            with keeper.begin():
                keeper.execute(text("SET LOCAL lock_timeout = '1s'"))
            assert renew_lease(keeper, epoch=1, now=LATER, lease_seconds=10)


def test_an_epoch_exceeds_what_the_ledger_has_seen(direct: Connection) -> None:
    """After an older PostgreSQL was restored, the ledger knows epochs that are not in it."""
    assert take(direct, "w1", above=41) == 42


def test_takeover_ends_a_leader_in_the_middle_of_its_transaction(direct_engine: Engine, site: Site) -> None:
    """L3: the old leader holds the epoch FOR SHARE and would never let go of it."""
    with direct_engine.connect() as old, direct_engine.connect() as new:
        assert take(old, "w1") == 1
        transaction = old.begin()
        lock_fence(old)
        old.execute(text("UPDATE config SET version = version + 100"))
        assert take(new, "w2", now=LATER) == 2
        with pytest.raises(DBAPIError):
            transaction.commit()
        old.invalidate()
    assert site.rows("SELECT version FROM config")[0].version < 100


def test_takeover_ends_a_leader_that_stopped_in_the_middle_of_copy(direct_engine: Engine) -> None:
    """L3: no timeout frees the locks of a connection that waits for COPY's next row."""
    with direct_engine.connect() as old, direct_engine.connect() as new:
        assert take(old, "w1") == 1
        transaction = old.begin()
        lock_fence(old)
        driver = old.connection.driver_connection
        assert driver is not None
        with pytest.raises(psycopg.Error), driver.cursor().copy("COPY keys (public_id) FROM STDIN") as copy:  # noqa: PT012
            copy.write_row(["00000000-0000-0000-0000-000000000000"])
            assert take(new, "w2", now=LATER) == 2
        assert get_lease(new).epoch == 2
        with pytest.raises(DBAPIError):
            transaction.rollback()
        old.invalidate()
