"""Case 038: a body that cannot be read or breaks a rule is answered with 4xx, never with 500."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from service.inventory.client import make_client
from service.settings import Settings
from service.store.engine import make_engine
from tests.integration.api.cluster import Cluster
from tests.scenarios.api_process import ApiProcess, api_process

BODIES = (
    b'{"name": "g1", "queue": "q1", "members": 2, "gpus": 1,}',
    b'{"name": "g2", "queue": "q1", "roles": [{"name": "worker", "count": "four", "requests": {"gpus": 1}}]}',
    b'{"name": "g3", "queue": "q1", "roles": [{"count": 2, "min_count": 3, "requests": {"gpus": 1}}]}',
    b'{"name": "\xff\xfe", "queue": "q1", "members": 2, "gpus": 1}',
)


@pytest.fixture
def api(database_url: str, redis_url: str, tmp_path: Path) -> Iterator[ApiProcess]:
    settings = Settings(
        database_url=database_url, redis_url=redis_url, data=tmp_path, api_key="a-key-for-tests"
    )
    engine, redis = make_engine(database_url), make_client(redis_url)
    Cluster(settings, engine, redis, gpus=8).close()
    with api_process(settings, tmp_path / "api.log") as api:
        yield api
    redis.close()
    engine.dispose()


def test_a_broken_body_is_a_client_error(api: ApiProcess) -> None:
    with api.client() as client:
        queue = {"name": "q1", "nominal_quota": {"H100-80GB": 8}}
        client.post("/v1/queues", json=queue).raise_for_status()
        answers = [send(client, body) for body in BODIES]
        listed = client.get("/v1/groups").json()
    # After 4: each of the four answers is 400 or 422 and a problem details body.
    for answer in answers:
        assert answer.status_code in (400, 422)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json().keys() >= {"type", "title", "status", "detail"}
        assert answer.json()["status"] == answer.status_code
    # After 4: answer 2 names the field count; answer 3 names the field min_count.
    assert fields(answers[1]) == ["roles[0].count"]
    assert fields(answers[2]) == ["roles[0].min_count"]
    # After 4: no answer holds a stack trace, and the error log has no unhandled exception.
    for text in (*(answer.text for answer in answers), api.log.read_text()):
        assert "Traceback" not in text
        assert "unhandled" not in text
        assert ".py" not in text
    # After 4: no answer was 5xx and the list of groups is empty.
    assert not [answer for answer in answers if answer.status_code >= 500]
    assert listed == {"groups": [], "cursor": None}


def send(client: httpx.Client, body: bytes) -> httpx.Response:
    return client.post("/v1/groups", content=body, headers={"content-type": "application/json"})


def fields(answer: httpx.Response) -> list[str]:
    return [error["field"] for error in answer.json()["errors"]]
