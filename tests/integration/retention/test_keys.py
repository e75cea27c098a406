"""K1: a submit key lives as long as any of its groups, and 7 days at least."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import Engine, text

from service.store.idempotency import find_keys
from service.store.retention import drop_groups, drop_keys, lock_droppable
from tests.integration.dispatch.site import START
from tests.integration.retention.history import DAY, cancel, drop, key_of, keys, left, submit

WEEK = 7 * DAY
SECOND = timedelta(seconds=1)


def test_a_key_and_its_group_stay_for_a_week_at_least(engine: Engine) -> None:
    with_key, without = submit(engine, START, key="k"), submit(engine, START + SECOND)
    cancel(engine, [*with_key.public_ids, *without.public_ids], START + SECOND)

    drop(engine, START + 2 * DAY, kept=DAY)
    assert left(engine)["groups"] == {with_key.groups[0].id}
    assert submit(engine, START + 2 * DAY, key="k").public_ids == with_key.public_ids

    drop(engine, START + WEEK, kept=DAY)
    assert keys(engine) == ["k"]
    drop(engine, START + WEEK + SECOND, kept=DAY)
    assert keys(engine) == []
    assert left(engine)["groups"] == set()
    assert not submit(engine, START + WEEK + 2 * SECOND, key="k").is_repeated


def test_a_key_lives_as_long_as_any_of_its_groups(engine: Engine) -> None:
    batch = submit(engine, START, count=3, key="k")
    cancel(engine, batch.public_ids[:2], START)
    drop(engine, START + 31 * DAY)
    assert left(engine)["groups"] == {batch.groups[2].id}
    assert submit(engine, START + 31 * DAY, count=3, key="k").public_ids == batch.public_ids
    cancel(engine, batch.public_ids[2:], START + 31 * DAY)
    drop(engine, START + 62 * DAY)
    assert keys(engine) == []
    assert left(engine)["groups"] == set()


def test_a_key_of_the_same_instant_keeps_only_its_own_groups(engine: Engine) -> None:
    mine, other = submit(engine, START, key="mine"), submit(engine, START, key="other")
    cancel(engine, mine.public_ids, START)
    drop(engine, START + 31 * DAY)
    assert keys(engine) == ["other"]
    assert left(engine)["groups"] == {other.groups[0].id}


@pytest.mark.parametrize("does_commit", [True, False])
def test_a_retry_waits_for_who_drops_its_key(engine: Engine, does_commit: bool) -> None:
    """The retry comes while the old group and its key are being dropped: it makes a new group once they
    are gone, or answers with the old one if they stay."""
    old = submit(engine, START, key="k")
    cancel(engine, old.public_ids, START)
    late = START + 31 * DAY
    limits = {"ended_before": late - 30 * DAY, "keys_before": late - WEEK}
    with ThreadPoolExecutor(1) as pool, engine.connect() as dropping:
        locked = lock_droppable(dropping, [old.groups[0].id], **limits)
        drop_groups(dropping, list(locked))
        assert drop_keys(dropping, list(locked.values()), keys_before=limits["keys_before"]) == 1
        retry = pool.submit(submit, engine, late, key="k")
        wait_for_a_waiter(engine)
        dropping.commit() if does_commit else dropping.rollback()
        again = retry.result(10)
    assert again.is_repeated is not does_commit
    assert left(engine)["groups"] == ({again.groups[0].id} if does_commit else {old.groups[0].id})
    with engine.connect() as conn:
        (found,) = find_keys(conn, [key_of("k").id]).values()
    assert (found.key.body_digest, found.group_ids) == (b"same", again.public_ids)


def wait_for_a_waiter(engine: Engine) -> None:
    for _ in range(1_000):
        with engine.connect() as conn:
            waiting = conn.execute(
                text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
            ).scalar_one()
            if waiting:
                return
            conn.execute(text("SELECT pg_sleep(0.01)"))
    raise AssertionError("nobody waits")
