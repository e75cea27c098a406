"""Publishing: only what changed, never by an older cycle, and read back as it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import redis

from service.admission.packed_order import PackedOrder, Waiting
from service.admission.plan import Blocker, QueueVerdict
from service.domain.reasons import Code
from service.inventory import keys
from service.inventory.client import make_client
from service.inventory.verdicts import Publisher, read_numbers, read_queue

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SHORT = Blocker(code=Code.INSUFFICIENT_GPUS, need=8, have_key="free:mx", scope={"flavor": "mx"})
QUOTA = Blocker(code=Code.QUOTA_EXCEEDED, need=8, have_key="used", limit_key="quota", scope={"queue": "q"})


@pytest.fixture
def client(redis_url: str) -> redis.Redis:
    return make_client(redis_url)


def verdict(
    queue: int, *groups: int, blockers: tuple[Blocker, ...] = (SHORT,), held: int | None = None
) -> QueueVerdict:
    order = tuple(
        Waiting(group_id=group, unit_id=group << 20, verdict=0, is_eligible=group != held) for group in groups
    )
    return QueueVerdict(queue_id=queue, order=PackedOrder.of(order), verdicts=(blockers,) if groups else ())


def publish(
    publisher: Publisher, *verdicts: QueueVerdict, cycle: int, epoch: int = 1, free: int = 0
) -> int | None:
    return publisher.publish(
        {verdict.queue_id: verdict for verdict in verdicts},
        {"free:mx": free},
        epoch=epoch,
        cycle=cycle,
        at=T0 + timedelta(seconds=cycle),
    )


def test_a_queue_reads_back_with_order_positions_and_numbers(client: redis.Redis) -> None:
    publish(Publisher(client), verdict(1, 11, 12, 13, held=12), cycle=1, free=3)
    queue = read_queue(client, 1)
    assert queue is not None
    assert [entry.group_id for entry in queue.order()] == [11, 12, 13]
    assert (queue.position_of(11), queue.position_of(12), queue.position_of(13)) == (1, None, 2)
    assert queue.positions() == {11: 1, 13: 2}
    assert queue.verdict_for(12) == 0
    assert queue.verdict_for(99) is None
    assert queue.verdicts == ((SHORT,),)
    assert read_numbers(client) == {"free:mx": 3}
    assert read_queue(client, 2) is None


def test_rows_of_one_group_count_as_one_position(client: redis.Redis) -> None:
    rows = ((11, 5), (12, 0), (11, 9), (13, 0))
    order = tuple(Waiting(group_id=g, unit_id=(g << 20) | i, verdict=0, is_eligible=True) for g, i in rows)
    publish(
        Publisher(client),
        QueueVerdict(queue_id=1, order=PackedOrder.of(order), verdicts=((SHORT,),)),
        cycle=1,
    )
    queue = read_queue(client, 1)
    assert queue is not None
    assert queue.positions() == {11: 1, 12: 2, 13: 3}
    assert queue.position_of(13) == 3


def test_a_cycle_that_changes_nothing_writes_nothing(client: redis.Redis) -> None:
    publisher = Publisher(client)
    assert publish(publisher, verdict(1, 11), verdict(2, 21), cycle=1) == 3
    before = {name: client.get(name) for name in client.keys("muster:verdict:queue:*")}
    assert publish(publisher, verdict(1, 11), verdict(2, 21), cycle=2) == 0
    assert publish(publisher, verdict(1, 11), verdict(2, 21, 22), cycle=3) == 1
    assert {name: client.get(name) for name in before}[b"muster:verdict:queue:1"] == before[
        b"muster:verdict:queue:1"
    ]


def test_an_older_cycle_is_refused(client: redis.Redis) -> None:
    old, new = Publisher(client), Publisher(client)
    publish(new, verdict(1, 11), cycle=1, epoch=2)
    assert publish(old, verdict(1, 12), cycle=900, epoch=1) is None
    queue = read_queue(client, 1)
    assert queue is not None
    assert [entry.group_id for entry in queue.order()] == [11]


def test_a_deleted_queue_is_gone_and_forgetting_publishes_all_again(client: redis.Redis) -> None:
    publisher = Publisher(client)
    publish(publisher, verdict(1, 11), verdict(2, 21), cycle=1)
    publish(publisher, verdict(1, 11), cycle=2)
    assert read_queue(client, 2) is None
    client.flushall()
    publisher.forget()
    assert publish(publisher, verdict(1, 11), cycle=3) == 2
    assert read_queue(client, 1) is not None


def test_since_tells_how_long_a_blocker_has_stood(client: redis.Redis) -> None:
    publisher = Publisher(client)
    publish(publisher, verdict(1, 11), cycle=1)
    publish(publisher, verdict(1, 11, 12, blockers=(QUOTA, SHORT)), cycle=5)
    queue = read_queue(client, 1)
    assert queue is not None
    assert queue.since == ((T0 + timedelta(seconds=5), T0 + timedelta(seconds=1)),)


@pytest.fixture
def since_one(client: redis.Redis) -> Publisher:
    """It has said of queue 1 what stands there since the first second."""
    publisher = Publisher(client)
    publish(publisher, verdict(1, 11), cycle=1)
    return publisher


def since(client: redis.Redis) -> tuple[tuple[datetime, ...], ...]:
    queue = read_queue(client, 1)
    assert queue is not None
    return queue.since


@pytest.mark.parametrize("is_emptied", [False, True])
def test_publishing_all_again_makes_no_wait_shorter(
    client: redis.Redis, since_one: Publisher, is_emptied: bool
) -> None:
    if is_emptied:
        client.flushall()
    since_one.forget()
    assert publish(since_one, verdict(1, 11), cycle=9) == 2
    assert since(client) == ((T0 + timedelta(seconds=1),),)


def test_the_next_leader_goes_on_from_what_was_published(client: redis.Redis, since_one: Publisher) -> None:
    following = Publisher(client)
    assert publish(following, verdict(1, 11, blockers=(QUOTA, SHORT)), verdict(2, 21), cycle=5, epoch=2) == 3
    assert since(client) == ((T0 + timedelta(seconds=5), T0 + timedelta(seconds=1)),)


def test_nodes_that_come_and_go_begin_no_new_wait(client: redis.Redis) -> None:
    publisher = Publisher(client)
    for second, nodes in ((1, "4"), (2, "5")):
        short = replace(SHORT, scope={"flavor": "mx", "nodes": nodes})
        assert publish(publisher, verdict(1, 11, blockers=(short,)), cycle=second)
    assert since(client) == ((T0 + timedelta(seconds=1),),)


def test_a_value_of_another_version_is_replaced(client: redis.Redis) -> None:
    client.set(keys.verdict(1), b"\x93garbage")
    assert publish(Publisher(client), verdict(1, 11), cycle=3) == 2
    assert since(client) == ((T0 + timedelta(seconds=3),),)
