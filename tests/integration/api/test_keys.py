from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Engine, text

from service.api.app import create_app
from service.api.auth import KeyRing
from service.clock import SystemClock
from service.domain.principal import KeyRole
from service.operations.admin_key import admin_key, ensure_admin_key
from service.operations.keys import create_key, digest_of, revoke_key
from service.settings import Settings
from tests.integration.api.callers import Callers
from tests.serving import KEY

Client = TestClient[Litestar]


def test_a_key_is_made_used_and_revoked(admin: Client, callers: Callers, engine: Engine) -> None:
    made = admin.post("/v1/keys", json={"user": "ada", "tenant": "blue", "role": "operator"})
    assert made.status_code == 201
    key = made.json()["key"]
    client = callers.with_key(key)
    assert client.get("/v1/queues").status_code == 200

    listed = admin.get("/v1/keys")
    assert key not in listed.text
    assert {(entry["user"], entry["tenant"], entry["role"]) for entry in listed.json()["keys"]} == {
        ("admin", "default", "admin"),
        ("ada", "blue", "operator"),
    }
    with engine.connect() as conn:
        stored = conn.execute(text("SELECT string_agg(keys::text, ' ') FROM keys")).scalar_one()
    assert key not in stored

    for _ in range(2):
        revoked = admin.delete(f"/v1/keys/{made.json()['id']}")
        assert revoked.status_code == 202
        assert revoked.json()["revoked_at"] is not None
        assert client.get("/v1/queues").status_code == 401, "at once, although it was remembered"
    assert admin.delete("/v1/keys/0198c0de-0000-7000-8000-000000000000").status_code == 404
    assert admin.delete("/v1/keys/rubbish").status_code == 404


def test_only_an_admin_has_to_do_with_keys(operator: Client, user: Client) -> None:
    for client in (operator, user):
        assert client.get("/v1/keys").status_code == 403
        assert client.post("/v1/keys", json={"user": "x"}).status_code == 403
        assert client.delete("/v1/keys/0198c0de-0000-7000-8000-000000000000").status_code == 403


def test_a_key_that_was_revoked_through_another_process_is_a_strangers(engine: Engine) -> None:
    """Else who has one could ask the database as often as it likes."""
    now = SystemClock().now()
    made = create_key(engine, tenant="t", user="ada", role=KeyRole.USER, now=now)
    ring, digest = KeyRing(engine), digest_of(made.key)
    assert ring.look_up(digest) is not None
    revoke_key(engine, made.record.id, now=now)
    assert ring.was_valid(digest)
    assert ring.look_up(digest) is None
    assert not ring.was_valid(digest)


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic YTpi", "Bearer " + "x" * 5000, "Bearer \xff"],
)
def test_no_or_a_wrong_key_is_401(anonymous: Client, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    answer = anonymous.get("/v1/queues", headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["type"] == "/problems/not-authenticated"


def test_the_admin_key_is_made_once_and_private(
    settings: Settings, engine: Engine, redis: Redis, tmp_path: Path
) -> None:
    own = msgspec.structs.replace(settings, api_key=None, data=tmp_path / "data")
    keys = []
    for _ in range(2):
        with TestClient(create_app(own, engine=engine, redis=redis)) as client:
            keys.append(admin_key(own))
            headers = {"Authorization": f"Bearer {keys[-1]}"}
            assert client.get("/v1/keys", headers=headers).status_code == 200
    assert keys[0] == keys[1] == (own.data / "admin.key").read_text().strip()
    assert (own.data / "admin.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in own.data.glob("*admin*")] == ["admin.key"]


def test_a_start_does_not_undo_a_revocation(engine: Engine, admin: Client) -> None:
    entry = next(entry for entry in admin.get("/v1/keys").json()["keys"] if entry["user"] == "admin")
    assert admin.delete(f"/v1/keys/{entry['id']}").status_code == 202
    assert ensure_admin_key(engine, KEY, now=SystemClock().now()) is False
    assert admin.get("/v1/keys").status_code == 401
