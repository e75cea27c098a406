"""The same key and body make the same groups, however often and at once they come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine, text

from service.domain.group import GroupSpec, Role
from service.domain.principal import KeyRole, Principal
from service.domain.resources import Resources
from service.operations.configuration import KnownConfiguration
from service.operations.secret_box import open_box
from service.operations.submit import submit_groups
from service.store.idempotency import KeyedGroups, SubmitKey, take_keys
from tests.integration.api.callers import Callers

Client = TestClient[Litestar]

BODY = {"name": "g1", "gpus": 4, "secrets": {"TOKEN": "one"}}
KEY = {"Idempotency-Key": "key-1"}
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_repetition_answers_with_the_same_group(user: Client) -> None:
    first = user.post("/v1/groups", json=BODY, headers=KEY)
    again = user.post("/v1/groups", json=BODY, headers=KEY)
    spelled = user.post(
        "/v1/groups",
        content=b'{ "gpus": 4, "secrets": {"TOKEN": "one"}, "name": "g1", "priority": 0 }',
        headers=KEY | {"content-type": "application/json"},
    )
    assert first.status_code == again.status_code == spelled.status_code == 201
    assert first.json() == again.json() == spelled.json()
    assert len(user.get("/v1/groups").json()["groups"]) == 1


def test_another_body_with_the_same_key_is_a_conflict(user: Client) -> None:
    user.post("/v1/groups", json=BODY, headers=KEY).raise_for_status()
    for other in ({"gpus": 3}, {"secrets": {"TOKEN": "two"}}, {"name": "g2"}):
        answer = user.post("/v1/groups", json=BODY | other, headers=KEY)
        assert answer.status_code == 409
        assert answer.json()["type"] == "/problems/conflict"
    assert user.post("/v1/groups/batch", json={"groups": [BODY]}, headers=KEY).status_code == 409
    assert len(user.get("/v1/groups").json()["groups"]) == 1


def test_a_refused_request_uses_up_no_key(user: Client) -> None:
    refused = user.post("/v1/groups", json=BODY | {"queue": "nowhere"}, headers=KEY)
    assert refused.status_code == 422
    assert user.post("/v1/groups", json=BODY, headers=KEY).status_code == 201


def test_a_key_belongs_to_its_user(user: Client, callers: Callers) -> None:
    other = callers.make(KeyRole.USER, user="other")
    mine, theirs = (client.post("/v1/groups", json=BODY, headers=KEY).json() for client in (user, other))
    assert mine["id"] != theirs["id"]


def test_a_batch_is_repeated_as_a_whole(user: Client) -> None:
    batch = {"groups": [BODY, BODY | {"name": "g2"}]}
    first = user.post("/v1/groups/batch", json=batch, headers=KEY).json()
    assert user.post("/v1/groups/batch", json=batch, headers=KEY).json() == first
    assert len(user.get("/v1/groups").json()["groups"]) == 2


def test_a_key_that_no_header_could_hold_is_refused(user: Client) -> None:
    for key in ("", "x" * 256):
        answer = user.post("/v1/groups", json=BODY, headers={"Idempotency-Key": key})
        assert answer.status_code == 422, key
        assert [error["field"] for error in answer.json()["errors"]] == ["Idempotency-Key"]


def test_a_thousand_retries_at_once_make_one_group(engine: Engine, tmp_path: Path) -> None:
    spec = GroupSpec(name="g", roles=(Role(name="worker", count=1, requests=Resources(gpus=1)),))
    key = SubmitKey(tenant="t", owner="u", key="k", body_digest=b"same")
    box, configuration = open_box(key=None, data=tmp_path), KnownConfiguration()
    principal = Principal(tenant="t", user="u", role=KeyRole.USER)

    def submit(_: int) -> tuple[object, bool]:
        done = submit_groups(
            engine, [spec], principal=principal, now=NOW, box=box, configuration=configuration, key=key
        )
        return done.public_ids, done.is_repeated

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(submit, range(1_000)))
    assert len({ids for ids, _ in answers}) == 1
    assert sum(not is_repeated for _, is_repeated in answers) == 1
    with engine.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM groups")).scalar_one() == 1
        assert conn.execute(text("SELECT count(*) FROM units")).scalar_one() == 1


def test_a_retry_that_waits_for_a_rollback_makes_the_group(engine: Engine, tmp_path: Path) -> None:
    """The first request wrote its key and died before its commit: the second one must not be told of
    groups that never came to be."""
    spec = GroupSpec(name="g", roles=(Role(name="worker", count=1, requests=Resources(gpus=1)),))
    key = SubmitKey(tenant="t", owner="u", key="k", body_digest=b"same")
    box, configuration = open_box(key=None, data=tmp_path), KnownConfiguration()
    principal = Principal(tenant="t", user="u", role=KeyRole.USER)
    with ThreadPoolExecutor(1) as pool, engine.connect() as dying:
        assert take_keys(dying, [KeyedGroups(key=key, group_ids=(), created_at=NOW)])
        waiting = pool.submit(
            submit_groups,
            engine,
            [spec],
            principal=principal,
            now=NOW,
            box=box,
            configuration=configuration,
            key=key,
        )
        _wait_for_lock(engine)
        dying.rollback()
        assert not waiting.result(10).is_repeated
    with engine.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM groups")).scalar_one() == 1


def _wait_for_lock(engine: Engine) -> None:
    """Until somebody waits for a transaction to end."""
    blocked = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    for _ in range(200):
        with engine.connect() as conn:
            if conn.execute(blocked).scalar_one():
                return
            conn.execute(text("SELECT pg_sleep(0.02)"))
    raise AssertionError("nobody waits")
