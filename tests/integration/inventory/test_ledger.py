"""The ledger on a real server: all or nothing, fenced, and the same after a rebuild."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from service.inventory.client import make_client
from service.inventory.ledger import Ledger, LedgerFenced
from service.inventory.state import Answer, LedgerState, NodeRoom, Reservation, Stamp

DONE, STALE, CONFLICT = Answer.DONE, Answer.STALE, Answer.CONFLICT

TWO_NODES = LedgerState(
    nodes={1: NodeRoom(cpus_milli=8000, memory_mib=64), 2: NodeRoom(cpus_milli=8000, memory_mib=64)},
    devices={(node, device): "mx" for node in (1, 2) for device in range(4)},
)


def hold(
    unit: int, *devices: tuple[int, int], attempt: int = 1, revision: int = 1, cpus: int = 0
) -> Reservation:
    return Reservation(
        unit_id=unit,
        attempt=attempt,
        revision=revision,
        devices=tuple(devices),
        cpus_milli={devices[0][0]: cpus} if cpus else {},
        memory_mib={devices[0][0]: 1} if cpus else {},
    )


@pytest.fixture
def client(redis_url: str) -> redis.Redis:
    return make_client(redis_url)


@pytest.fixture
def ledger(client: redis.Redis) -> Ledger:
    return Ledger(client)


def state(ledger: Ledger) -> LedgerState:
    found = ledger.read()
    assert found is not None
    return found


def test_there_is_no_ledger_before_the_first_rebuild(ledger: Ledger) -> None:
    assert ledger.stamp() is None
    assert ledger.read() is None


def test_a_rebuild_reads_back_as_what_was_written(ledger: Ledger) -> None:
    written = replace(
        TWO_NODES,
        lost=frozenset({(2, 3)}),
        reservations=(hold(7, (1, 0), (1, 1), cpus=3000), hold(8, (2, 0), attempt=4)),
    )
    stamp = ledger.rebuild(5, written)
    assert ledger.stamp() == stamp
    read = state(ledger)
    assert sorted(read.reservations, key=lambda held: held.unit_id) == list(written.reservations)
    assert (read.nodes, read.devices, read.lost) == (written.nodes, written.devices, written.lost)
    assert read.free() == {(1, 2), (1, 3), (2, 1), (2, 2)}


def test_each_unit_is_reserved_whole_or_not_at_all(ledger: Ledger) -> None:
    stamp = ledger.rebuild(1, TWO_NODES)
    answers, stamp = ledger.reserve(
        stamp, [hold(1, (1, 0), (1, 1)), hold(2, (1, 2), (1, 1)), hold(3, (1, 2), (1, 3))]
    )
    assert answers == [DONE, CONFLICT, DONE], "the refused one in the middle must not stop the next"
    assert state(ledger).holders() == {(1, 0): (1, 1), (1, 1): (1, 1), (1, 2): (3, 1), (1, 3): (3, 1)}
    assert ledger.stamp() == stamp


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(hold(9, (1, 9)), id="a device that nobody has"),
        pytest.param(hold(9, (2, 3)), id="a lost device"),
        pytest.param(hold(9, (1, 0), cpus=8001), id="more CPUs than the node has"),
        pytest.param(
            Reservation(unit_id=9, attempt=1, revision=1, devices=(), memory_mib={1: 65}), id="memory"
        ),
        pytest.param(
            Reservation(unit_id=9, attempt=1, revision=1, devices=(), cpus_milli={3: 1}), id="no such node"
        ),
    ],
)
def test_what_is_not_there_cannot_be_reserved(ledger: Ledger, wanted: Reservation) -> None:
    stamp = ledger.rebuild(1, replace(TWO_NODES, lost=frozenset({(2, 3)})))
    before = ledger.read()
    answers, _ = ledger.reserve(stamp, [wanted])
    assert answers == [CONFLICT]
    assert ledger.read() == before


def test_one_revision_is_reserved_once_and_the_next_adds_to_it(ledger: Ledger) -> None:
    stamp = ledger.rebuild(1, TWO_NODES)
    answers, stamp = ledger.reserve(
        stamp, [hold(1, (1, 0)), hold(1, (1, 1)), hold(1, (1, 2), revision=2), hold(1, (1, 3), attempt=2)]
    )
    assert answers == [DONE, CONFLICT, DONE, DONE]
    answers, stamp = ledger.release(stamp, [(1, 1)])
    assert answers == [DONE]
    assert state(ledger).holders() == {(1, 3): (1, 2)}, (
        "both revisions of attempt 1 are free, attempt 2 is not"
    )


def test_release_gives_back_cpus_and_memory(ledger: Ledger) -> None:
    stamp = ledger.rebuild(1, TWO_NODES)
    for attempt in (1, 2, 3):
        answers, stamp = ledger.reserve(stamp, [hold(1, (1, 0), attempt=attempt, cpus=8000)])
        assert answers == [DONE]
        answers, stamp = ledger.release(stamp, [(1, attempt)])
        assert answers == [DONE]
    answers, _ = ledger.release(stamp, [(1, 3)])
    assert answers == [CONFLICT], "it holds nothing any more"


def test_a_writer_that_remembers_another_ledger_changes_nothing(ledger: Ledger) -> None:
    stamp = ledger.rebuild(3, TWO_NODES)
    _, now = ledger.reserve(stamp, [hold(1, (1, 0))])
    before = ledger.read()
    for old in (stamp, replace_stamp(now, epoch=2), replace_stamp(now, incarnation="another")):
        assert ledger.reserve(old, [hold(2, (1, 1))])[0] == [STALE]
        assert ledger.release(old, [(1, 1)])[0] == [STALE]
        assert ledger.mark(old, lost=[(1, 1)])[0] is STALE
    assert ledger.read() == before
    assert ledger.stamp() == now, "what was refused as stale leaves the leader's memory right"


def test_many_are_reserved_and_released_in_few_calls_each_with_its_own_answer(ledger: Ledger) -> None:
    many = replace(TWO_NODES, devices={(1, device): "mx" for device in range(250)})
    stamp = ledger.rebuild(1, many)
    wanted = [hold(unit, (1, unit)) for unit in range(250)]
    wanted[120] = hold(120, (1, 119))
    answers, reserved = ledger.reserve(stamp, wanted)
    assert [unit for unit, answer in enumerate(answers) if answer is not DONE] == [120]
    assert answers[120] is CONFLICT
    assert reserved.version - stamp.version == 3, "one for each call, not for each reservation"
    answers, released = ledger.release(reserved, [(unit, 1) for unit in range(250)])
    assert [unit for unit, answer in enumerate(answers) if answer is not DONE] == [120]
    assert ledger.stamp() == released
    assert state(ledger).holders() == {}


def test_a_gang_may_have_more_places_than_a_call_has_arguments(ledger: Ledger) -> None:
    devices = [(node, device) for node in range(1, 1501) for device in range(8)]
    stamp = ledger.rebuild(1, replace(TWO_NODES, devices=dict.fromkeys(devices, "mx")))
    answers, stamp = ledger.reserve(stamp, [hold(1, *devices), hold(2, devices[-1])])
    assert answers == [DONE, CONFLICT]
    assert len(state(ledger).holders()) == len(devices)
    answers, stamp = ledger.release(stamp, [(1, 1)])
    assert answers == [DONE]
    assert state(ledger).holders() == {}


def test_a_pipeline_behind_a_stale_call_is_stale_as_a_whole(ledger: Ledger) -> None:
    stamp = ledger.rebuild(1, TWO_NODES)
    old = replace_stamp(stamp, version=stamp.version - 1)
    answers, _ = ledger.reserve(old, [hold(1, (1, 0)), hold(2, (1, 1))])
    assert answers[0] is STALE
    assert state(ledger).holders().get((1, 0)) is None


def test_a_raised_epoch_fences_the_old_leader_before_anything_is_rebuilt(ledger: Ledger) -> None:
    stamp = ledger.rebuild(1, TWO_NODES)
    ledger.raise_epoch(2)
    assert ledger.reserve(stamp, [hold(1, (1, 0))])[0] == [STALE]
    with pytest.raises(LedgerFenced):
        ledger.rebuild(1, TWO_NODES)
    with pytest.raises(LedgerFenced):
        ledger.raise_epoch(1)
    ledger.raise_epoch(2)
    assert state(ledger).holders() == {}


def test_a_rebuild_replaces_everything_and_leaves_no_old_part(ledger: Ledger, client: redis.Redis) -> None:
    stamp = ledger.rebuild(1, TWO_NODES)
    ledger.reserve(stamp, [hold(1, (1, 0))])
    new = ledger.rebuild(2, replace(TWO_NODES, reservations=(hold(5, (2, 0)),)))
    assert state(ledger).holders() == {(2, 0): (5, 1)}
    names = {name.decode() for name in client.keys("muster:ledger:*") if isinstance(name, bytes)}
    assert all(new.incarnation in name for name in names), names
    assert all(client.ttl(name) == -1 for name in names), "what is in use never expires"


def test_after_the_server_lost_everything_every_call_is_stale(ledger: Ledger, client: redis.Redis) -> None:
    stamp = ledger.rebuild(1, TWO_NODES)
    client.flushall()
    assert ledger.reserve(stamp, [hold(1, (1, 0))])[0] == [STALE]
    assert ledger.stamp() is None
    ledger.rebuild(1, TWO_NODES)
    assert state(ledger).free() == set(TWO_NODES.devices)


def test_scripts_are_loaded_again_after_the_server_forgot_them(ledger: Ledger, client: redis.Redis) -> None:
    stamp = ledger.rebuild(1, TWO_NODES)
    client.script_flush()
    answers, _ = ledger.reserve(stamp, [hold(1, (1, 0)), hold(2, (1, 1))])
    assert answers == [DONE, DONE]


def test_lost_devices_are_not_free_and_can_be_found_again(ledger: Ledger) -> None:
    stamp = ledger.rebuild(1, TWO_NODES)
    _, stamp = ledger.reserve(stamp, [hold(1, (1, 0))])
    answer, stamp = ledger.mark(stamp, lost=[(1, 0), (1, 1)])
    assert answer is DONE
    assert state(ledger).lost == {(1, 0), (1, 1)}
    _, stamp = ledger.release(stamp, [(1, 1)])
    assert (1, 0) not in state(ledger).free(), "released, but still lost"
    _, stamp = ledger.mark(stamp, found=[(1, 0)])
    assert (1, 0) in state(ledger).free()


def replace_stamp(stamp: Stamp, **changes: object) -> Stamp:
    return replace(stamp, **changes)  # type: ignore[arg-type]


def test_a_node_that_shrank_below_what_it_runs_still_has_room_for_nothing(ledger: Ledger) -> None:
    """Its room is negative; who asks for no CPUs and no memory needs none of it."""
    shrunk = replace(
        TWO_NODES,
        nodes={1: NodeRoom(cpus_milli=1000, memory_mib=64)},
        reservations=(hold(7, (1, 0), cpus=3000),),
    )
    stamp = ledger.rebuild(1, shrunk)
    nothing = replace(hold(8, (1, 1)), cpus_milli={1: 0}, memory_mib={1: 0})
    answers, stamp = ledger.reserve(stamp, [nothing, hold(9, (1, 2), cpus=1)])
    assert answers == [DONE, CONFLICT]
    answers, _ = ledger.release(stamp, [(8, 1)])
    assert answers == [DONE]
