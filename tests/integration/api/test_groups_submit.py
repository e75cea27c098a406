"""Submitting groups over HTTP, read back."""

from __future__ import annotations

from litestar import Litestar
from litestar.testing import TestClient

Client = TestClient[Litestar]

SHORT = {"name": "train", "members": 2, "gpus": 1, "command": ["true"]}


def test_a_submitted_group_is_pending_and_can_be_read(user: Client) -> None:
    answer = user.post("/v1/groups", json=SHORT)
    assert answer.status_code == 201, answer.text
    group = answer.json()
    assert answer.headers["location"] == f"/v1/groups/{group['id']}"
    assert group["status"] == "Pending"
    assert group["units"] == {"Pending": 1}
    assert (group["wanted_members"], group["wanted_gpus"]) == (2, 2)
    assert (group["attempt"], group["generation"], group["places"]) == (1, None, [])
    assert user.get(f"/v1/groups/{group['id']}").json() == group
