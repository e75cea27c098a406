"""The command starts fast, and a user's command loads nothing of the server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest

from service.cli.exits import MEANINGS
from service.cli.main import COMMANDS, run

SERVER_ONLY = ("litestar", "sqlalchemy", "alembic", "redis", "rq", "psycopg", "uvicorn", "workers")
USER_COMMANDS = [
    name
    for name in COMMANDS
    if name not in {"up", "down", "api", "worker", "dispatcher", "ticker", "migrate"}
]


def loaded_by(arguments: Sequence[str]) -> set[str]:
    """The top packages that are loaded when a command line has been run."""
    code = (
        "import sys; from service.cli.main import run; run(sys.argv[1:]);"
        "print('LOADED', *{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "MUSTER_URL": "http://127.0.0.1:9", "MUSTER_DATA": "/nonexistent"},
    )
    return set(done.stdout.rpartition("LOADED")[2].split())


def test_help_is_there_at_once() -> None:
    # The best of a few: others may have the processor.
    took = min(_seconds_of([sys.executable, "-m", "service.cli", "--help"]) for _ in range(5))
    assert took < 0.3 + _seconds_of([sys.executable, "-c", "pass"])


def _seconds_of(command: Sequence[str]) -> float:
    begin = time.monotonic()
    subprocess.run(command, capture_output=True, check=True)
    return time.monotonic() - begin


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["run", "--", "true"]])
def test_a_users_command_loads_nothing_of_the_server(arguments: list[str]) -> None:
    assert loaded_by(arguments).isdisjoint(SERVER_ONLY)


def test_help_lists_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for name in COMMANDS:
        assert f" {name} " in text
    for code in MEANINGS:
        assert f" {code} " in text


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert f"muster {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["list", "--nothing"], ["submit"], ["list", "-s", "Lost"]]
)
def test_a_wrong_command_line_is_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err
