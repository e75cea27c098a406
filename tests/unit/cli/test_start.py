"""The command starts fast, and a user's command loads nothing of the server."""

from __future__ import annotations

import os
import subprocess
import sys
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


def test_help_costs_little_more_than_what_draws_it() -> None:
    # Processor time, side by side: others may have the processor.
    drawing = min(_cpu_seconds([sys.executable, "-c", "import rich_click"]) for _ in range(3))
    took = min(_cpu_seconds([sys.executable, "-m", "service.cli", "--help"]) for _ in range(3))
    assert took < 6 * drawing


def _cpu_seconds(command: Sequence[str]) -> float:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


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
