"""Floods over real HTTP: refused with 429 by key and by address, others served."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from service.client import Client
from service.client.address import Address
from tests.servers import Databases
from tests.serving import Served, serving_alone
from workers.embedded.valkey import ValkeyServer

RATE, BURST, WRONG_BURST = 20, 40, 15
RATES = {
    "key_requests_per_second": RATE,
    "key_requests_burst": BURST,
    "wrong_keys_per_second": 1,
    "wrong_keys_burst": WRONG_BURST,
    "max_streams_per_user": 2,
}
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture
def api(
    databases: Databases, inventory_server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("data")
    with serving_alone(databases, inventory_server, data, **RATES) as served:
        yield served


def other_key(client: httpx.Client) -> str:
    answer = client.post("/v1/keys", json={"user": "olga", "role": "user"})
    answer.raise_for_status()
    return str(answer.json()["key"])


def flood(client: httpx.Client, requests: int) -> list[httpx.Response]:
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda _: client.post("/v1/groups", json={"name": "flood"}), range(requests)))


def test_a_flood_of_one_key_is_refused_and_another_key_is_served(api: Served) -> None:
    with api.caller() as one, api.caller(key=other_key(one)) as other:
        began_at = time.monotonic()
        answers = flood(one, 300)
        took = time.monotonic() - began_at
        counts = Counter(answer.status_code for answer in answers)
        assert set(counts) == {201, 429}
        assert BURST - 1 <= counts[201] <= BURST + RATE * took + 1
        assert {client_answer.status_code for client_answer in flood(other, 10)} == {201}
        # 1. What a refusal says.
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["type"] == "/problems/too-many-requests"
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["ratelimit-policy"] == f'"key";q={BURST};w={BURST // RATE}'
        assert refused.headers["ratelimit"] == '"key";r=0;t=1'
        # 2. What was refused made nothing; who comes when told is served.
        time.sleep(float(refused.headers["retry-after"]))
        page = one.get("/v1/groups", params={"name": "flood", "limit": 500})
        assert len(page.json()["groups"]) == counts[201] + 10
        # 3. It is counted, and does not fill the log.
        assert f'muster_refused_total{{reason="rate"}} {counts[429]}.0' in one.get("/metrics").text
    assert not [line for line in api.lines_of("request") if line["status"] == 429]


def test_those_that_watch_the_service_are_never_refused(api: Served) -> None:
    with api.caller() as client:
        flood(client, 100)
        for path in ("/healthz", "/readyz", "/metrics"):
            assert {client.get(path).status_code for _ in range(30)} == {200}


def test_a_large_body_counts_as_several(api: Served) -> None:
    body = {"name": "large", "labels": {}, "env": {f"V{number}": "x" * 4000 for number in range(60)}}
    with api.caller() as client:
        codes = [client.post("/v1/groups", json=body).status_code for _ in range(20)]
    assert 429 in codes[: BURST // 3], codes


def test_guessing_keys_is_bounded_and_locks_nobody_out(api: Served) -> None:
    with api.caller() as known, httpx.Client(base_url=api.url, timeout=20) as stranger:
        assert known.get("/v1/queues").status_code == 200
        codes = [
            stranger.get("/v1/queues", headers={"Authorization": f"Bearer guess-{number}"}).status_code
            for number in range(60)
        ]
        assert codes[:WRONG_BURST] == [401] * WRONG_BURST
        assert codes.count(429) >= 40
        assert stranger.get("/v1/queues").status_code == 429
        assert stranger.get("/healthz").status_code == 200
        # The same address, with a key that was good a moment ago.
        time.sleep(1.1)
        assert known.get("/v1/queues").status_code == 200
        assert 'muster_refused_total{reason="wrong_keys"}' in known.get("/metrics").text


def test_nobody_can_say_to_come_from_elsewhere(api: Served) -> None:
    with httpx.Client(base_url=api.url, timeout=20) as stranger:
        codes = [
            stranger.get(
                "/v1/queues", headers={"Authorization": "Bearer x", "X-Forwarded-For": f"10.0.0.{number}"}
            ).status_code
            for number in range(40)
        ]
    assert 429 in codes


def test_streams_of_one_user_are_bounded_and_others_have_theirs(api: Served) -> None:
    with api.caller() as one, api.caller(key=other_key(one)) as other:
        paths = []
        for client in (one, other):
            group_id = client.post("/v1/groups", json={"name": "g"}).json()["id"]
            paths.append(f"/v1/groups/{group_id}/events")
        with (
            one.stream("GET", paths[0], headers=STREAM) as first,
            one.stream("GET", paths[0], headers=STREAM) as second,
        ):
            assert (first.status_code, second.status_code) == (200, 200)
            refused = one.get(paths[0], headers=STREAM)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            with other.stream("GET", paths[1], headers=STREAM) as third:
                assert third.status_code == 200


def test_the_client_waits_when_it_is_told_to(api: Served) -> None:
    """Far more than the burst, and every group exists once."""
    with Client(Address(api.url, api.key)) as client:
        began_at = time.monotonic()
        ids = [client.submit({"name": f"g{number}"}).id for number in range(BURST + 25)]
        took = time.monotonic() - began_at
        assert len(set(ids)) == BURST + 25
        assert took > 1.0
        listed = {group.id for group in client.list_groups()}
    assert listed == set(ids)
