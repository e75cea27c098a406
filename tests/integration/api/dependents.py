"""Groups that wait for the end of others, as their tests submit them and look at them."""

from __future__ import annotations

from typing import Any

from litestar import Litestar
from litestar.testing import TestClient


def submit(client: TestClient[Litestar], name: str, *after: dict[str, Any], **fields: object) -> str:
    """The id of a group of one member that waits for these."""
    body = {"name": name, "gpus": 1, "command": ["true"], "after": list(after)} | fields
    answer = client.post("/v1/groups", json=body)
    assert answer.status_code == 201, answer.text
    group_id: str = answer.json()["id"]
    return group_id
