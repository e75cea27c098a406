"""Case 048: values passed to members as secrets do not show in answers, events, explanations or logs."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2 as httpx
import psutil
import pytest
import redis
from sqlalchemy import text

from service.store.engine import make_engine
from tests import servers
from tests.e2e.stacks import Up, data_folder, wait_for, wait_status

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
    """What was seen where, by the end of the steps."""

    seen_by_member: str
    answers: dict[str, list[httpx.Response]]
    stored: str
    logs: bytes
    whole_data: bytes
    message: str


@pytest.fixture(scope="module")
def found() -> Iterator[Found]:
    with servers.server_folder() as folder, data_folder(folder) as data:
        up = Up(data)
        yield run_steps(up, folder)
        assert up.stop() == 0


def run_steps(up: Up, folder: Path) -> Found:
    with up.client() as admin, user(up, "u1") as u1, user(up, "u2") as u2:
        keyed(up).post("/v1/queues", json={"name": "q1", "nominal_quota": {"H100-80GB": 8}}).raise_for_status()
        group_id = submit(u1, program(folder), folder / "seen")
        message = wait_status(admin, group_id, "Failed").message or ""
        answers = {
            "u1": [*(u1.get(f"/v1/groups/{group_id}{part}") for part in PARTS), *lists(u1)],
            "u2": [*(u2.get(f"/v1/groups/{group_id}{part}") for part in PARTS), *lists(u2)],
        }
    return Found(
        seen_by_member=(folder / "seen").read_text(),
        answers=answers,
        stored=rows(up) + keys(up),
        logs=up.output.read_bytes() + contents(up.data / "logs" if False else up.data / "run"),
        whole_data=contents(up.data),
        message=message,
    )
