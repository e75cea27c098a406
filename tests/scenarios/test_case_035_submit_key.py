"""Case 035: the submit key never points to a group that does not exist, and never makes two."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from sqlalchemy import Engine, text

from service.inventory.client import make_client
from service.settings import Settings
from service.store.engine import make_engine
from tests.integration.api.cluster import Cluster
from tests.scenarios.api_process import ApiProcess, api_process

BODY = {"name": "g1", "queue": "q1", "members": 1, "gpus": 4, "command": ["true"]}
KEY = {"Idempotency-Key": "key-1"}


@dataclass(frozen=True)
class Outcome:
    """What the steps left: the answers to 3, 4 and 5, and the cluster after 6."""

    answers: list[httpx.Response]
    client: httpx.Client
    cluster: Cluster


@pytest.fixture
def outcome(database_url: str, redis_url: str, tmp_path: Path) -> Iterator[Outcome]:
    settings = Settings(
        database_url=database_url, redis_url=redis_url, data=tmp_path, api_key="a-key-for-tests"
    )
    engine, redis = make_engine(database_url), make_client(redis_url)
    cluster = Cluster(settings, engine, redis, gpus=8)
    log = tmp_path / "api.log"
    with api_process(settings, log) as api, api.client() as client:
        queue = {"name": "q1", "nominal_quota": {"H100-80GB": 8}}
        client.post("/v1/queues", json=queue).raise_for_status()
        submit_and_kill(api, engine)
    with api_process(settings, log) as api, api.client() as client:
        answers = [submit(client), submit(client)]
        with ThreadPoolExecutor(10) as pool:
            answers += pool.map(lambda _: submit(client), range(10))
        cluster.settle()
        yield Outcome(answers, client, cluster)
    cluster.close()
    redis.close()
    engine.dispose()


def submit(client: httpx.Client) -> httpx.Response:
    return client.post("/v1/groups", json=BODY, headers=KEY)


def submit_in_vain(client: httpx.Client) -> None:
    with pytest.raises(httpx.TransportError):
        submit(client)


def submit_and_kill(api: ApiProcess, engine: Engine) -> None:
    """Step 1: the transaction that writes the key is stopped where it inserts the group, and there the
    process is killed."""
    with engine.connect() as lock:
        lock.execute(text("LOCK TABLE groups IN SHARE MODE"))
        with api.client() as client:
            lost = threading.Thread(target=submit_in_vain, args=(client,))
            lost.start()
            wait_until_key_is_written(engine)
            api.kill()
            lost.join()
        lock.rollback()


def wait_until_key_is_written(engine: Engine) -> None:
    """Until somebody who has written to the keys waits for the lock on `groups`."""
    waiting = text(
        "SELECT count(*) FROM pg_locks w JOIN pg_locks k USING (pid)"
        " WHERE w.relation = 'groups'::regclass AND NOT w.granted"
        " AND k.relation = 'idempotency_keys'::regclass AND k.mode = 'RowExclusiveLock' AND k.granted"
    )
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with engine.connect() as conn:
            if conn.execute(waiting).scalar_one():
                return
        time.sleep(0.02)
    raise AssertionError("nobody inserts a group")


def get(client: httpx.Client, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_submit_key_makes_exactly_one_group(outcome: Outcome) -> None:
    # After 5: the twelve answers to steps 3, 4 and 5 are 2xx and carry the same id.
    assert len(outcome.answers) == 12
    assert {answer.status_code // 100 for answer in outcome.answers} == {2}
    (group_id,) = {answer.json()["id"] for answer in outcome.answers}
    # After 5: a GET on that id answers 200.
    group = get(outcome.client, f"/v1/groups/{group_id}")
    # After 5: the list of groups holds exactly one group.
    assert [each["id"] for each in get(outcome.client, "/v1/groups")["groups"]] == [group_id]
    # After 6: g1 is Running on n1 with 4 GPUs; used GPUs of q1 are 4; exactly one member was launched.
    assert group["status"] == "Running"
    assert group["places"] == [{"node": "n1", "gpus": 4, "members": 1}]
    assert get(outcome.client, "/v1/queues/q1")["used"]["H100-80GB"] == 4
    assert len(outcome.cluster.machines.live_members()) == 1
    assert len(outcome.cluster.machines.observe("p1")) == 1
