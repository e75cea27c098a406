"""Case 048: values passed to members as secrets do not show in answers, events, explanations or logs."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2 as httpx
import psutil
import pytest
import redis
from sqlalchemy import text

from service.store.engine import make_engine
from tests import servers
from tests.e2e.stacks import Up, data_folder, wait_status

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300), pytest.mark.slow]

VALUES = ("VALUE-ONE", "VALUE-TWO", "VALUE-THREE")
PARTS = ("", "/events", "/reasons", "/position", "/members", "/members/0", "/members/0/logs")
PROGRAM = """#!/bin/sh
printf '%s\\n' "$REG_PASSWORD" "$API_TOKEN" "$*" >> "$SEEN"
env >&2
exit 1
"""


@dataclass(frozen=True)
class Found:
    """What was seen where, by the end of the steps. `answers` are by user."""

    seen_by_member: str
    message: str
    answers: dict[str, list[httpx.Response]]
    rows: str
    values: bytes
    service_logs: bytes
    whole_data: bytes


@pytest.fixture(scope="module")
def found() -> Iterator[Found]:
    with servers.server_folder() as folder, data_folder(folder) as data:
        up = Up(data)
        found = run_steps(up, folder)
        assert up.stop() == 0
        yield found


def run_steps(up: Up, folder: Path) -> Found:
    with up.client() as client, admin(up) as operator, ExitStack() as stack:
        queue = {"name": "q1", "nominal_quota": {"H100-80GB": 8}}
        operator.post("/v1/queues", json=queue).raise_for_status()
        readers = {name: stack.enter_context(user(up, operator, name)) for name in ("u1", "u2")}
        group_id = submit(readers["u1"], folder)
        message = wait_status(client, group_id, "Failed").message
        return Found(
            seen_by_member=(folder / "seen").read_text(),
            message=message or "",
            answers={name: read(reader, group_id) for name, reader in readers.items()},
            rows=rows(up),
            values=values(up),
            service_logs=up.output.read_bytes() + contents(up.data / "logs" / "service"),
            whole_data=contents(up.data),
        )


def admin(up: Up) -> httpx.Client:
    return with_key(up, (up.data / "admin.key").read_text().strip())


def user(up: Up, operator: httpx.Client, name: str) -> httpx.Client:
    answer = operator.post("/v1/keys", json={"user": name, "role": "user"})
    answer.raise_for_status()
    return with_key(up, answer.json()["key"])


def with_key(up: Up, key: str) -> httpx.Client:
    return httpx.Client(base_url=up.url, headers={"Authorization": f"Bearer {key}"}, timeout=30)


def submit(client: httpx.Client, folder: Path) -> str:
    """Step 1, as u1."""
    program = folder / "run"
    program.write_text(PROGRAM)
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    body = {
        "name": "g1",
        "queue": "q1",
        "members": 1,
        "gpus": 1,
        "secrets": {"REG_PASSWORD": "VALUE-ONE"},
        "env": {"API_TOKEN": "VALUE-TWO", "MODE": "train", "SEEN": str(folder / "seen")},
        "command": [str(program), "--token", "VALUE-THREE"],
        "recovery": {"max_restarts": 0},
    }
    answer = client.post("/v1/groups", json=body)
    answer.raise_for_status()
    return str(answer.json()["id"])


def read(client: httpx.Client, group_id: str) -> list[httpx.Response]:
    """Every address that shows something of the group."""
    own = [client.get(f"/v1/groups/{group_id}{part}") for part in PARTS]
    streamed = client.get(f"/v1/groups/{group_id}/events", headers={"Accept": "text/event-stream"})
    listed = [client.get("/v1/groups"), client.get("/v1/groups", params={"queue": "q1"})]
    return [*own, streamed, *listed]


def environ(up: Up) -> dict[str, str]:
    return psutil.Process(up.identity("worker").pid).environ()


def rows(up: Up) -> str:
    """Every row of PostgreSQL."""
    engine = make_engine(environ(up)["MUSTER_DATABASE_URL"])
    with engine.connect() as conn:
        tables = conn.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars()
        found = [
            str(row)
            for table in tables.all()
            for row in conn.execute(text(f'SELECT t::text FROM "{table}" AS t')).scalars()
        ]
    engine.dispose()
    assert found
    return "\n".join(found)


def values(up: Up) -> bytes:
    """Every key of Redis, with its value as it lies there."""
    with redis.Redis.from_url(environ(up)["MUSTER_REDIS_URL"]) as client:
        return b"".join(key + (client.dump(key) or b"") for key in client.scan_iter())


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_the_member_saw_the_real_values(found: Found) -> None:
    # After 2: the member process saw the real VALUE-ONE, VALUE-TWO and VALUE-THREE.
    assert found.seen_by_member.splitlines() == ["VALUE-ONE", "VALUE-TWO", "--token VALUE-THREE"]


def test_a_declared_secret_is_nowhere(found: Found) -> None:
    # After 3: VALUE-ONE is in no answer, event, explanation, service log or dump, for any user, and
    # stands in clear in no row and no key.
    assert {answer.status_code for answer in found.answers["u1"]} == {200}
    for answer in (*found.answers["u1"], *found.answers["u2"]):
        assert "VALUE-ONE" not in answer.text
    assert "exit" in found.message.lower()
    assert "VALUE-ONE" not in found.rows
    for content in (found.values, found.service_logs, found.whole_data):
        assert content
        assert b"VALUE-ONE" not in content


def test_a_variable_whose_name_looks_sensitive_is_masked(found: Found) -> None:
    # After 3: VALUE-TWO is masked in answers, events, explanations, service logs and dumps; the value of
    # MODE is not masked.
    assert found.answers["u1"][0].json()["roles"][0]["env"] | {"SEEN": ""} == {
        "API_TOKEN": "***",
        "MODE": "train",
        "SEEN": "",
    }
    for answer in (*found.answers["u1"], *found.answers["u2"]):
        assert "VALUE-TWO" not in answer.text
    log = found.answers["u1"][PARTS.index("/members/0/logs")].text
    assert {"API_TOKEN=***", "REG_PASSWORD=***", "MODE=train"} <= set(log.splitlines())
    assert b"VALUE-TWO" not in found.service_logs
    assert b"VALUE-TWO" not in found.whole_data


def test_another_user_sees_none_of_the_values(found: Found) -> None:
    # After 4: u2 sees none of the three values.
    assert {answer.status_code for answer in found.answers["u2"]} == {200, 404}
    for answer in found.answers["u2"]:
        assert not [value for value in VALUES if value in answer.text]
