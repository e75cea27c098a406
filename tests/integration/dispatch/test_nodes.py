"""Nodes as the launcher reports them: written when something is new, and never otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import Connection, Engine, text

from service.operations.dispatch import PoolFence
from service.operations.pool_state import Seat, commit_nodes, find_devices, lose_devices
from service.operations.register_nodes import Registered, register_nodes
from service.store.config import raise_config_version
from service.store.inventory_rows import ensure_pool, load_nodes
from service.store.nodes import set_cordon
from tests.integration.dispatch.locks import wait_for_lock
from tests.integration.dispatch.site import START, Site, node
from workers.launchers.base import NodeReport
from workers.reconcile import reported_node


@pytest.fixture
def conn(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as conn:
        yield conn


@pytest.fixture
def pool(conn: Connection) -> int:
    return ensure_pool(conn, "p1", launcher="simulated", levels=["rack", "host"])


def report(conn: Connection, pool: int, *nodes: NodeReport) -> Registered:
    return register_nodes(conn, pool, reports=[reported_node(one) for one in nodes], now=START)


def version(conn: Connection) -> int:
    return int(conn.execute(text("SELECT version FROM config")).scalar_one())


def kinds(conn: Connection) -> list[str]:
    return list(conn.execute(text("SELECT kind FROM events ORDER BY id")).scalars())


def test_a_pool_is_made_once_and_follows_its_settings(conn: Connection, pool: int) -> None:
    before = version(conn)
    assert ensure_pool(conn, "p1", launcher="simulated", levels=["rack", "host"]) == pool
    assert version(conn) == before
    assert ensure_pool(conn, "p1", launcher="simulated", levels=["host"]) == pool
    assert version(conn) == before + 1


def test_new_nodes_have_their_devices_and_their_own_name_as_label(conn: Connection, pool: int) -> None:
    before = version(conn)
    report(conn, pool, replace(node("n1", 2), labels={"rack": "r1"}, boot_id="b1"))

    found = load_nodes(conn, pool)["n1"]
    assert found.labels == {"rack": "r1", "host": "n1"}
    assert (found.is_ready, found.is_cordoned, found.boot_id) == (True, False, "b1")
    assert [(d.model, d.memory_mib, d.is_healthy) for d in found.devices.values()] == [
        ("mx", 81920, True)
    ] * 2
    assert version(conn) == before + 1
    assert kinds(conn) == ["NodeUp"]


def test_the_same_report_again_writes_nothing(conn: Connection, pool: int) -> None:
    report(conn, pool, node("n1"))
    before = version(conn)
    assert report(conn, pool, node("n1")).has_changed is False
    assert version(conn) == before
    assert kinds(conn) == ["NodeUp"]


@pytest.mark.parametrize(
    "change",
    [
        {"cpus_milli": 1},
        {"memory_mib": 1},
        {"labels": {"rack": "r9"}},
        {"devices": node("n1", 9).devices},
        {"devices": (replace(node("n1").devices[0], is_healthy=False), *node("n1").devices[1:])},
        {"is_ready": False},
    ],
    ids=["cpus", "memory", "labels", "device", "health", "ready"],
)
def test_what_changes_raises_the_version(conn: Connection, pool: int, change: dict[str, object]) -> None:
    report(conn, pool, node("n1"))
    before = version(conn)
    changed = replace(node("n1"), **change)  # type: ignore[arg-type]
    assert report(conn, pool, changed).has_changed
    assert version(conn) == before + 1
    assert report(conn, pool, changed).has_changed is False


def test_a_node_that_is_not_named_any_more_is_not_ready_and_stays(conn: Connection, pool: int) -> None:
    report(conn, pool, node("n1"), node("n2"))
    report(conn, pool, node("n1"))
    assert {name: found.is_ready for name, found in load_nodes(conn, pool).items()} == {
        "n1": True,
        "n2": False,
    }
    assert kinds(conn)[-1] == "NodeDown"
    report(conn, pool, node("n1"), node("n2"))
    assert load_nodes(conn, pool)["n2"].is_ready


def test_a_device_that_is_not_named_any_more_is_not_healthy(conn: Connection, pool: int) -> None:
    report(conn, pool, node("n1", 3))
    report(conn, pool, node("n1", 2))
    assert [d.is_healthy for d in load_nodes(conn, pool)["n1"].devices.values()] == [True, True, False]


def test_what_an_operator_set_stays(conn: Connection, pool: int) -> None:
    report(conn, pool, node("n1"))
    conn.execute(text("UPDATE nodes SET is_cordoned = true, drain_at = :at"), {"at": START})
    report(conn, pool, replace(node("n1"), cpus_milli=1))
    found = load_nodes(conn, pool)["n1"]
    assert (found.is_cordoned, found.drain_at, found.cpus_milli) == (True, START, 1)


def test_a_name_of_another_pool_is_refused_and_the_rest_taken(conn: Connection, pool: int) -> None:
    other = ensure_pool(conn, "p2", launcher="simulated", levels=["host"])
    report(conn, pool, node("n1"))
    registered = report(conn, other, node("n1"), node("n2"))
    assert registered.refused == ["n1"]
    assert list(load_nodes(conn, other)) == ["n2"]
    assert load_nodes(conn, pool)["n1"].is_ready


def test_another_boot_finds_only_devices_that_were_lost_before_it(conn: Connection, pool: int) -> None:
    report(conn, pool, replace(node("n1", 2), boot_id="b1"))
    conn.execute(
        text("UPDATE devices SET lost_at = :at, lost_note = '1/1/1', lost_boot_id = 'b1'"), {"at": START}
    )
    report(conn, pool, replace(node("n1", 2), boot_id="b1", cpus_milli=1))
    assert len(load_nodes(conn, pool)["n1"].lost_devices) == 2
    report(conn, pool, replace(node("n1", 2), boot_id="b2"))
    assert load_nodes(conn, pool)["n1"].lost_devices == frozenset()
    assert kinds(conn)[-2:] == ["DeviceFound", "DeviceFound"]


def test_another_boot_that_was_first_seen_not_ready_finds_them_too(conn: Connection, pool: int) -> None:
    booted = replace(node("n1", 2), boot_id="b2")
    report(conn, pool, replace(node("n1", 2), boot_id="b1"))
    conn.execute(
        text("UPDATE devices SET lost_at = :at, lost_note = '1/1/1', lost_boot_id = 'b1'"), {"at": START}
    )
    report(conn, pool, replace(booted, is_ready=False))
    assert len(load_nodes(conn, pool)["n1"].lost_devices) == 2

    report(conn, pool, booted)

    assert load_nodes(conn, pool)["n1"].lost_devices == frozenset()


def test_a_boot_that_is_not_known_finds_nothing(conn: Connection, pool: int) -> None:
    report(conn, pool, replace(node("n1", 2), boot_id="b1"))
    conn.execute(
        text("UPDATE devices SET lost_at = :at, lost_note = '1/1/1', lost_boot_id = 'b1'"), {"at": START}
    )
    report(conn, pool, node("n1", 2))
    assert len(load_nodes(conn, pool)["n1"].lost_devices) == 2


def change_devices(fence: PoolFence, seat: Seat) -> None:
    commit_nodes(fence, [reported_node(replace(node("n1", 2), cpus_milli=1))], now=START)


def lose(fence: PoolFence, seat: Seat) -> None:
    lose_devices(fence, {seat: (1, 1, 1)}, now=START)


def find(fence: PoolFence, seat: Seat) -> None:
    find_devices(fence, [seat], now=START)


@pytest.mark.parametrize("change", [change_devices, lose, find])
def test_a_dispatchers_change_and_an_operators_lock_in_one_order(
    site: Site, engine: Engine, change: Callable[[PoolFence, Seat], None]
) -> None:
    """The version first, then nodes and devices: the other order deadlocks with a cordon."""
    node_id = site.node_ids()["n1"]
    pool_id, epoch = site.dispatcher.pool_id, site.dispatcher.epoch
    assert pool_id is not None
    assert epoch is not None
    with engine.connect() as own, engine.connect() as operator, ThreadPoolExecutor(1) as pool:
        pid = own.execute(text("SELECT pg_backend_pid()")).scalar_one()
        own.rollback()
        with operator.begin():
            raise_config_version(operator)
            changing = pool.submit(change, PoolFence(own, pool_id, epoch), (node_id, 0))
            wait_for_lock(site, pid)
            operator.execute(text("SET LOCAL lock_timeout = '1s'"))
            set_cordon(operator, node_id, is_cordoned=True, drain_at=None)
            operator.execute(text("UPDATE devices SET is_healthy = is_healthy"))
        changing.result(timeout=30)


def test_a_node_that_goes_down_before_the_start_gives_the_places_back(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))])
    site.cluster.node_down("n2")

    site.pass_at(1)

    row = site.unit(unit)
    assert (row.status, row.attempt, row.cause, row.backoff_until) == ("Pending", 2, "Infrastructure", None)
    assert site.launched(unit) == 0
    assert site.held() == 0
