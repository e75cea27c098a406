"""Very much at once: a batch of ten thousand, a thousand repetitions of one submit, floods over the rate."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.client import Client
from service.client.address import Address
from tests import servers
from tests.e2e.stacks import Up, data_folder
from tests.faults import faults
from tests.faults.raw_http import Answer, RawHttp, all_of
from tests.faults.trial import load_on, start
from tests.faults.witness import connect

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(180), pytest.mark.slow]

PARKED = "parked"
RATE, BURST = 50, 100
#: Loose: a test runs beside others.
MOST_SECONDS = 3.0


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with servers.server_folder() as folder, data_folder(folder) as data:
        stack = start(data)
        with stack.client() as client:
            client.queues.create(PARKED, {"stop": "hold"})
        yield stack
        assert stack.stop() == 0


@pytest.fixture(scope="module")
def limited() -> Iterator[Up]:
    """A stack with low rates. The admin's key is the load's own, too: it has to bear being refused."""
    with servers.server_folder() as folder, data_folder(folder) as data:
        stack = start(
            data,
            MUSTER_KEY_REQUESTS_PER_SECOND=str(RATE),
            MUSTER_KEY_REQUESTS_BURST=str(BURST),
            MUSTER_WRONG_KEYS_PER_SECOND="1",
            MUSTER_WRONG_KEYS_BURST="20",
        )
        with stack.client() as client:
            client.queues.create(PARKED, {"stop": "hold"})
        yield stack
        assert stack.stop() == 0


def _public_ids(up: Up, name: str) -> list[str]:
    with connect(up.data) as conn:
        rows = conn.execute("SELECT public_id::text FROM groups WHERE name = %s ORDER BY id", [name])
        return [row[0] for row in rows.fetchall()]


# ------------------------------------------------------------ much at once
def test_ten_thousand_groups_in_one_batch(up: Up, tmp_path: Path) -> None:
    """Answered whole, in their order, and nobody else waits for it."""
    with load_on(up, tmp_path) as trial:
        http = RawHttp(trial.client.address)
        body = {"groups": [{"name": "many", "queue": PARKED, "labels": {"n": str(n)}} for n in range(10_000)]}

        async def run() -> tuple[Answer, list[float]]:
            asking = asyncio.create_task(http.ask("POST", "/v1/groups/batch", body=body))
            seconds = []
            while not asking.done():
                answer = await http.ask("GET", "/healthz")
                assert answer.status == 200
                seconds.append(answer.seconds)
                await asyncio.sleep(0.01)
            return await asking, seconds

        answer, seconds = asyncio.run(run())
        assert answer.status == 201
        ids = [group["id"] for group in answer.json()["groups"]]
        assert ids == _public_ids(up, "many")
        assert len(set(ids)) == 10_000
        assert answer.seconds < 10.0
        assert max(seconds) < MOST_SECONDS, max(seconds)
        trial.assert_unharmed()


def test_a_thousand_repetitions_of_one_submit_make_one_group(up: Up, tmp_path: Path) -> None:
    with load_on(up, tmp_path) as trial:
        http, body = RawHttp(trial.client.address), trial.journal.gang(2, name="once")
        key = f"Idempotency-Key: {uuid.uuid4()}"

        async def insist() -> Answer:
            """503 says that all are busy, and to try again."""
            answer = await http.ask("POST", "/v1/groups", key, body=body)
            if answer.status != 503:
                return answer
            await asyncio.sleep(float(answer.headers["retry-after"]))
            return await insist()

        async def run() -> list[Answer]:
            return await all_of([insist() for _ in range(1_000)])

        answers = asyncio.run(run())
        assert Counter(answer.status for answer in answers) == {201: 1_000}
        (group_id,) = {answer.json()["id"] for answer in answers}
        assert _public_ids(up, "once") == [group_id]
        trial.expect(group_id)
        trial.assert_unharmed()


# ------------------------------------------------------------ over the rate
async def _flood(http: RawHttp, *, name: str, requests: int) -> list[Answer]:
    body = {"name": name, "queue": PARKED}
    return await all_of([http.ask("POST", "/v1/groups", body=body) for _ in range(requests)])


def _flood_and_count(up: Up, http: RawHttp, *, name: str) -> None:
    """Twenty times the burst at once: a part is made, the rest is told when to come again."""
    answers = asyncio.run(_flood(http, name=name, requests=20 * BURST))
    counts = Counter(answer.status for answer in answers)
    assert set(counts) == {201, 429}, counts
    assert counts[429] > 10 * BURST
    for answer in answers:
        if answer.status == 429:
            assert answer.json()["type"] == "/problems/too-many-requests"
            assert 1 <= int(answer.headers["retry-after"]) <= 10
            assert answer.headers["ratelimit-policy"] == f'"key";q={BURST};w={BURST // RATE}'
    assert len(_public_ids(up, name)) == counts[201]


def _other_user(up: Up) -> Client:
    with up.client() as admin:
        key = admin.keys.create("olga", role="admin").key
    client = Client(Address(up.url, key))
    # Until its key has been looked up, a caller counts among the strangers of its address.
    client.queues.list()
    return client


def test_a_flood_over_the_rate_is_refused_and_others_are_served(limited: Up, tmp_path: Path) -> None:
    with _other_user(limited) as flooder, load_on(limited, tmp_path) as trial:
        began_at = time.monotonic()
        _flood_and_count(limited, RawHttp(flooder.address), name="flood")
        # The same key again, as patiently as it is told to: every group is made.
        for number in range(BURST):
            flooder.submit({"name": f"patient-{number}", "queue": PARKED})
        assert time.monotonic() - began_at < 60
        trial.assert_unharmed()


def test_the_rate_holds_and_submits_go_on_without_redis(limited: Up, tmp_path: Path) -> None:
    with load_on(limited, tmp_path) as trial, _other_user(limited) as flooder:
        before = len(trial.stream.submits)
        with faults.gone(limited, "valkey"):
            _flood_and_count(limited, RawHttp(flooder.address), name="flood-without-redis")
            deadline = time.monotonic() + 20
            while len(trial.stream.submits) <= before + 3:
                assert time.monotonic() < deadline, "submits do not go on"
                time.sleep(0.05)
        trial.assert_recovers()
        trial.assert_unharmed()


def test_guessing_keys_is_refused_and_locks_nobody_out(limited: Up, tmp_path: Path) -> None:
    with load_on(limited, tmp_path) as trial:
        guesser = RawHttp(Address(limited.url, "muster_wrong"))

        async def guess() -> list[Answer]:
            return await all_of([guesser.ask("GET", "/v1/queues") for _ in range(300)])

        counts = Counter(answer.status for answer in asyncio.run(guess()))
        assert set(counts) == {401, 429}
        assert counts[401] < 100
        trial.client.list_groups()
        trial.assert_unharmed()
