"""A reader that has gone changes neither what a command does nor its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.client import Client
from tests.serving import KEY

GROUP = {"name": "sleepers", "command": ["sleep", "1"]}


def code_without_reader(url: str, *arguments: str, is_silent: bool = False) -> int:
    """Run a command into a pipe that nobody reads; its exit code."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {"PATH": os.environ["PATH"], "MUSTER_URL": url, "MUSTER_API_KEY": KEY}
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "service.cli", *arguments],
            stdout=writer,
            stderr=writer if is_silent else subprocess.PIPE,
            env=environment,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    assert b"Broken pipe" not in (ended.stderr or b"")
    return ended.returncode


def test_what_was_submitted_is_submitted(server: str, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "many.json"
    file.write_text(json.dumps([GROUP | {"name": f"g{number}"} for number in range(600)]))
    assert code_without_reader(server, "submit", str(file)) == 0
    assert len(list(client.list_groups())) == 600


def test_all_groups_are_acted_on(server: str, client: Client) -> None:
    ids = [client.submit(GROUP).id for _ in range(3)]
    assert code_without_reader(server, "cancel", "nothing", *ids) == 5
    assert {client.get(group_id).status for group_id in ids} == {"Cancelled"}


@pytest.mark.parametrize("is_silent", [False, True])
def test_the_code_is_that_of_the_command(server: str, is_silent: bool) -> None:
    for arguments, code in (
        ("list", 0),
        ("--help", 0),
        ("submit --help", 0),
        ("version", 0),
        ("keys create ada", 0),
        ("queues", 0),
        ("show nothing", 5),
        ("list --nonsense", 2),
        ("keys revoke nothing", 5),
    ):
        assert code_without_reader(server, *arguments.split(), is_silent=is_silent) == code, arguments
