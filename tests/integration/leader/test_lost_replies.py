"""Redis did as it was told, and nobody heard of it (R2, R3): the reply of each script is lost once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
import redis

from service import jobs
from service.clock import VirtualClock
from service.domain.unit import unit_id
from service.inventory.client import make_client
from service.inventory.verdicts import read_queue
from service.settings import Settings
from tests.integration.leader.site import Site, gang
from tests.integration.leader.test_interleavings import assert_books_agree, holders
from tests.lines import RedisLine, Talk, once
from workers.admission import Leader
from workers.embedded.valkey import ValkeyServer
from workers.tasks import CycleTask

_ROUNDS = 3
_SCRIPTS = files("service.inventory").joinpath("lua")


@pytest.fixture
def line(redis_url: str, inventory_server: ValkeyServer, server_folder: Path) -> Iterator[RedisLine]:
    # A script that Redis does not know yet is called twice, and the first time it does not run.
    with redis.Redis.from_url(redis_url) as client:
        for source in _SCRIPTS.iterdir():
            client.script_load(source.read_text())
    with RedisLine(inventory_server.socket, server_folder) as line:
        yield line


@pytest.fixture
def distant(line: RedisLine) -> Iterator[redis.Redis]:
    """A client whose replies can be lost."""
    client = make_client(line.url)
    yield client
    client.close()


@pytest.fixture
def leader(site: Site, database_url: str, distant: redis.Redis, clock: VirtualClock) -> Iterator[Leader]:
    leader = Leader(database_url, distant, clock=clock, settings=Settings(), name="w1")
    yield leader
    leader.abandon()


def word_of(script: str) -> bytes:
    """What is on the wire when a script is called."""
    if script == "bell":
        return b"LTRIM"
    source = _SCRIPTS.joinpath(f"{script}.lua").read_bytes()
    return hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()


def cut(talk: Talk) -> None:
    talk.cut()


def run(leader: Leader) -> int:
    """Cycles until everything has come to be, as the ticker causes them; how many units were admitted."""
    admitted = 0
    for _ in range(_ROUNDS):
        try:
            result = leader.run_cycle()
        except redis.RedisError:
            continue  # the takeover itself: the next tick tries again
        admitted += result.admitted
        if result.is_settled:
            return admitted
    raise AssertionError("it does not settle")


@pytest.mark.parametrize("script", ["raise_epoch", "switch", "reserve", "release", "mark", "publish", "bell"])
def test_a_reply_that_is_lost_after_the_script_ran_costs_nothing(
    site: Site, leader: Leader, line: RedisLine, distant: redis.Redis, client: redis.Redis, script: str
) -> None:
    """One group ends, one is admitted, one waits and a device is lost, all in the cycle of the lost reply."""
    [ends] = site.submit(spec=gang(1, 8, priority=9))
    site.submit(spec=gang(1, 7))
    if script not in ("raise_epoch", "switch"):  # these belong to a takeover
        assert run(leader) == 2
    site.end(unit_id(ends, 0)) if site.held() else site.cancel_waiting(unit_id(ends, 0))
    site.execute("UPDATE devices SET lost_at = now() WHERE node_id = :n AND device = 7", n=site.node_ids[1])
    site.execute("UPDATE config SET version = version + 1")
    [next_one], [waits] = site.submit(spec=gang(1, 4, priority=5)), site.submit(spec=gang(2, 8))
    lost = 0

    def lose(talk: Talk) -> None:
        nonlocal lost
        lost += 1
        talk.cut()

    line.after(word_of(script), once(lose))

    run(leader)

    assert lost == 1, "the script was called"
    assert site.statuses()[unit_id(next_one, 0)] == "Admitted"
    assert site.rows("SELECT count(*) FROM events WHERE kind = 'Admitted' AND group_id = :g", g=next_one) == [
        (1,)
    ]
    assert (unit_id(next_one, 0), 1) in holders(client)
    assert (unit_id(ends, 0), 1) not in holders(client)
    assert_books_agree(site, client)
    published = read_queue(client, site.queue_id)
    assert published is not None
    assert published.position_of(waits) == 1
    assert leader.stale_refusals == []


def test_a_rebuild_that_was_cut_off_in_the_middle_is_made_again(
    site: Site, leader: Leader, line: RedisLine, client: redis.Redis
) -> None:
    """R4: the new incarnation is written, and the connection ends before it is switched in."""
    [group] = site.submit()
    line.before(word_of("switch"), once(cut))
    assert run(leader) == 1
    assert holders(client) == {(unit_id(group, 0), 1)}
    assert_books_agree(site, client)


def test_a_wake_up_whose_reply_is_lost_costs_a_tick(
    site: Site, leader: Leader, line: RedisLine, distant: redis.Redis, client: redis.Redis
) -> None:
    """J1: `wake` stays set and no job is enqueued; the ticker asks neither."""
    site.submit()
    line.after(word_of("wake"), once(cut))
    with pytest.raises(redis.RedisError):
        jobs.wake_cycles(distant)
    assert jobs.waiting_jobs(client) == 0
    assert not jobs.wake_cycles(client), "the flag is set, and nobody will take it down"
    jobs.enqueue_cycles(client)  # the tick
    CycleTask(leader, distant, settings=Settings()).run()
    assert set(site.statuses().values()) == {"Admitted"}
    assert jobs.wake_cycles(client), "wake-ups enqueue again"
