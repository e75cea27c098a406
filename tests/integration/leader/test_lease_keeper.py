"""The thread that keeps a lease alive, and lets go of it when it should (L1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, Engine

from service.clock import SystemClock
from service.operations.lead import get_settled_lease, take_lease
from tests.integration.leader.processes import wait_until
from tests.integration.leader.site import lock_fence
from workers.lease_keeper import LeaseKeeper

LEASE_SECONDS = 0.6
MakeKeeper = Callable[..., LeaseKeeper]


@pytest.fixture
def make_keeper(direct_engine: Engine) -> Iterator[MakeKeeper]:
    made: list[LeaseKeeper] = []

    def make(epoch: int, *, bound_seconds: float = 60) -> LeaseKeeper:
        keeper = LeaseKeeper(
            direct_engine,
            epoch=epoch,
            clock=SystemClock(),
            lease_seconds=LEASE_SECONDS,
            bound_seconds=bound_seconds,
        )
        made.append(keeper)
        keeper.start()
        return keeper

    yield make
    for keeper in made:
        keeper.stop()


def take(conn: Connection, holder: str) -> int:
    epoch = take_lease(conn, holder=holder, now=SystemClock().now(), lease_seconds=LEASE_SECONDS)
    assert epoch is not None
    return epoch


def is_free(conn: Connection) -> bool:
    return get_settled_lease(conn).expires_at <= SystemClock().now()


def test_a_kept_lease_stays_while_a_transaction_holds_the_epoch(
    direct: Connection, direct_engine: Engine, make_keeper: MakeKeeper
) -> None:
    with direct_engine.connect() as other:
        keeper = make_keeper(take(direct, "w1"))
        with direct.begin():
            lock_fence(direct)
            first = get_settled_lease(other).expires_at
            wait_until(lambda: get_settled_lease(other).expires_at > first)
            wait_until(lambda: SystemClock().now() > first)
            assert not is_free(other)
        assert not keeper.is_lost


def test_a_cycle_over_its_bound_loses_the_lease(direct: Connection, make_keeper: MakeKeeper) -> None:
    keeper = make_keeper(take(direct, "w1"), bound_seconds=0.1)
    keeper.begin_cycle()
    wait_until(lambda: keeper.is_lost)
    wait_until(lambda: is_free(direct))


def test_cycles_within_their_bound_keep_it(direct: Connection, make_keeper: MakeKeeper) -> None:
    keeper = make_keeper(take(direct, "w1"), bound_seconds=0.5)
    first = get_settled_lease(direct).expires_at
    while SystemClock().now() <= first:
        keeper.begin_cycle()
        keeper.end_cycle()
    assert not keeper.is_lost
    assert not is_free(direct)


def test_a_lease_that_somebody_else_took_is_lost(
    direct: Connection, direct_engine: Engine, make_keeper: MakeKeeper
) -> None:
    keeper = make_keeper(take(direct, "w1"))
    with direct_engine.connect() as other:
        taken = take(other, "w1")
        wait_until(lambda: keeper.is_lost)
        assert get_settled_lease(other).epoch == taken
    direct.invalidate()
