"""What the server refuses is shown with the field that is meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.cli import exits
from service.cli.main import run
from tests.unit.client.scripted import Answer, serving


@pytest.mark.parametrize(
    ("detail", "errors", "shown"),
    [
        (
            "must be an absolute path",
            [{"field": "groups[2].workdir", "message": "must be an absolute path"}],
            "Error: groups[2].workdir: must be an absolute path\n",
        ),
        (
            "no",
            [{"field": "env.RANK", "message": "no"}, {"field": "env.A", "message": "no"}],
            "Error: env.RANK: no\n  env.A: no\n",
        ),
        (
            "members: Must be at least 1.",
            [{"field": "members", "message": "Must be at least 1."}],
            "Error: members: Must be at least 1.\n",
        ),
        (
            "The body cannot be read.",
            [{"field": "", "message": "cannot be read"}],
            "Error: The body cannot be read.\n",
        ),
    ],
)
def test_the_field_is_named_once(
    detail: str,
    errors: list[dict[str, str]],
    shown: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = {"type": "/problems/invalid-request", "title": "No", "status": 422}
    body = json.dumps({**problem, "detail": detail, "errors": errors}).encode()
    file = tmp_path / "group.yaml"
    file.write_text("name: a\n")
    with serving(Answer(422, body)) as (_, client):
        assert run(["--url", client.address.url, "submit", str(file)]) == exits.REFUSED
    assert capsys.readouterr().err == shown
