"""Reservations that the ledger refuses: mended by a rebuild, or left out so that others go on."""

from __future__ import annotations

import pytest
import redis

from service.clock import VirtualClock
from service.domain.group import GroupSpec, Role
from service.domain.resources import Resources
from service.domain.unit import unit_id
from service.inventory import keys
from service.inventory.ledger import Ledger
from service.inventory.verdicts import read_queue
from tests.integration.leader.site import Site, gang
from workers.admission import Leader
from workers.suspects import RETRY_SECONDS


def asks(*, cpus_milli: int = 0, memory_mib: int = 0) -> GroupSpec:
    """One member with one GPU and these amounts."""
    requests = Resources(gpus=1, cpus_milli=cpus_milli, memory_mib=memory_mib)
    role = Role(name="worker", count=1, min_count=1, requests=requests, command=("true",))
    return GroupSpec(name="g", roles=(role,))


@pytest.mark.parametrize(
    ("shrunk", "spec"),
    [
        ("cpus_milli = 500", asks(memory_mib=1024)),
        ("memory_mib = 512", asks(cpus_milli=1000)),
        ("cpus_milli = 500, memory_mib = 512", asks()),
    ],
)
def test_who_asks_for_none_of_it_fits_on_a_node_that_shrank(
    site: Site, leader: Leader, shrunk: str, spec: GroupSpec
) -> None:
    """A node may come to have less than what runs on it: then its room in the ledger is negative."""
    site.execute("UPDATE nodes SET is_cordoned = true WHERE name <> 'n1'")
    site.submit(spec=gang(1))
    assert leader.run_cycle().admitted == 1
    site.execute(f"UPDATE nodes SET {shrunk} WHERE name = 'n1'")
    site.execute("UPDATE config SET version = version + 1")
    site.submit(spec=spec)
    result = leader.run_cycle()
    assert (result.is_settled, result.admitted) == (True, 1)


@pytest.fixture
def cursed(site: Site) -> tuple[int, int]:
    """Two groups that each have one place: the first one on all of n1, the second one on n3."""
    site.execute("UPDATE nodes SET is_cordoned = true WHERE name = 'n2'")
    site.add_node("n3", gpus=1)
    (large,), (small,) = site.submit(spec=gang(1, 8, priority=9)), site.submit(spec=gang(1))
    return unit_id(large, 0), unit_id(small, 0)


def refuse(site: Site, leader: Leader, client: redis.Redis) -> None:
    """Plan; and before the places are taken, n1 is somebody's of whom PostgreSQL knows nothing."""
    assert leader.read_and_plan()
    stamp = Ledger(client).stamp()
    assert stamp is not None
    client.hset(keys.ledger_part(stamp.incarnation, "held"), f"{site.node_ids[0]}.3", "1/1")
    assert not leader.reserve()


def test_a_wrong_ledger_is_mended_and_nobody_is_left_out(
    site: Site, leader: Leader, client: redis.Redis, cursed: tuple[int, int]
) -> None:
    refuse(site, leader, client)
    assert leader.run_cycle().admitted == 2
    assert set(site.statuses().values()) == {"Admitted"}


def test_what_a_rebuilt_ledger_refuses_again_does_not_stop_the_others(
    site: Site, leader: Leader, client: redis.Redis, clock: VirtualClock, cursed: tuple[int, int]
) -> None:
    large, small = cursed
    for _ in range(2):
        refuse(site, leader, client)
    result = leader.run_cycle()
    assert (result.is_settled, result.admitted, result.waiting) == (True, 1, 1)
    assert site.statuses() == {large: "Pending", small: "Admitted"}
    # It still waits at its place, and nothing untrue is said of it.
    published = read_queue(client, site.queue_id)
    assert published is not None
    assert published.position_of(large >> 20) == 1
    assert published.verdicts == ((),)
    # Later it is tried again, and then the ledger has room.
    clock.advance(RETRY_SECONDS - 1)
    assert leader.run_cycle().admitted == 0
    clock.advance(1)
    assert leader.run_cycle().admitted == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE config SET version = version + 1",
        (
            "WITH changed AS (UPDATE units SET version = version + 1 WHERE status = 'Pending' RETURNING *)"
            " INSERT INTO events (is_feed, at, kind, group_id, unit_id)"
            " SELECT true, now(), 'Released', group_id, id FROM changed"
        ),
    ],
)
def test_what_was_left_out_is_tried_at_once_when_it_or_the_configuration_is_another(
    site: Site, leader: Leader, client: redis.Redis, cursed: tuple[int, int], change: str
) -> None:
    for _ in range(2):
        refuse(site, leader, client)
    assert leader.run_cycle().admitted == 1
    site.execute(change)
    assert leader.run_cycle().admitted == 1


def test_two_refusals_with_a_success_between_them_leave_nobody_out(
    site: Site, leader: Leader, client: redis.Redis, cursed: tuple[int, int]
) -> None:
    refuse(site, leader, client)
    assert leader.read_and_plan()
    assert leader.reserve()
    refuse(site, leader, client)
    assert leader.run_cycle().admitted == 2
