"""What people see: the same commands at a terminal."""

from __future__ import annotations

import pytest

from service.cli import exits
from service.client import Client
from tests.integration.cli.terminal import at_terminal, lines_of


@pytest.fixture
def group_id(client: Client) -> str:
    return client.submit({"name": "sleepers", "members": 3, "command": ["sleep", "1"]}).id


def test_a_table_has_a_header_and_fits(server: str, group_id: str) -> None:
    lines = lines_of(at_terminal(server, "list"))
    assert lines[0].split() == ["ID", "NAME", "STATUS", "QUEUE", "POS", "MEMBERS", "GPUS", "WAITED", "RAN"]
    assert lines[1].startswith(group_id[-12:])
    assert all(len(line) <= 100 for line in lines)
    assert group_id in at_terminal(server, "list", columns=140)


def test_colours_can_be_left_out(server: str, group_id: str) -> None:
    assert "\x1b[33m" in at_terminal(server, "list")
    for text in (at_terminal(server, "--no-color", "list"), at_terminal(server, "list", NO_COLOR="1")):
        assert "\x1b[33m" not in text
        assert "Pending" in text


def test_errors_have_colours_unless_they_are_left_out(server: str) -> None:
    nowhere = "http://127.0.0.1:9"
    assert "\x1b[31m" in at_terminal(nowhere, "list", code=exits.NO_SERVER)
    assert "\x1b[" in at_terminal(server, "list", "--nonsense", code=exits.USAGE)
    for text in (
        at_terminal(nowhere, "--no-color", "list", code=exits.NO_SERVER),
        at_terminal(nowhere, "list", code=exits.NO_SERVER, NO_COLOR="1"),
        at_terminal(server, "--no-color", "list", "--nonsense", code=exits.USAGE),
    ):
        assert "\x1b[" not in text
        assert "Error: " in text


def test_what_is_said_of_a_group_hangs_below_itself(server: str, client: Client) -> None:
    client.submit({"name": "wordy", "command": ["python", "train.py", *["--with-one-more"] * 12]})
    lines = lines_of(at_terminal(server, "show", "wordy", columns=80))
    first = next(number for number, line in enumerate(lines) if "train.py" in line)
    assert lines[first + 1].startswith(" " * 13 + "--with-one-more")
    assert lines[first + 2].startswith(" " * 13 + "--with-one-more")
    lines = lines_of(at_terminal(server, "why", "wordy", columns=80))
    asked = next(number for number, line in enumerate(lines) if line.startswith("asks for     1 member"))
    assert lines[asked + 1].startswith(" " * 13)


def test_every_command_shows_what_it_should(server: str, group_id: str) -> None:
    for arguments, shown in (
        ("show sleepers", ["Pending", "3 × (1 CPU, 1 GiB): sleep 1", "Members", "Events", "Submitted"]),
        ("show sleepers", ["no time limit: counts as never ending"]),
        ("why sleepers", ["asks for", "3 members", "never ending", "PendingEvaluation", "likely start"]),
        ("queues", ["best_effort"]),
        ("keys", ["admin"]),
        ("nodes", ["There are no nodes"]),
        ("list --name none", ["There are no groups."]),
        ("list --json", ['"name": "sleepers"']),
        ("hold sleepers", ["held"]),
    ):
        text = "\n".join(lines_of(at_terminal(server, *arguments.split())))
        for part in shown:
            assert part in text, arguments


def test_a_narrow_terminal_is_not_overrun(server: str, group_id: str) -> None:
    for arguments in (["list"], ["show", "sleepers"], ["why", "sleepers"], ["queues"]):
        assert all(len(line) <= 72 for line in lines_of(at_terminal(server, *arguments, columns=72)))


@pytest.mark.parametrize("columns", [80, 120])
def test_queues_are_a_row_for_each_resource(server: str, client: Client, columns: int) -> None:
    quota = {"H100-80GB": 8, "cpus": 64, "memory_gib": 512}
    client.queues.create("research", {"nominal_quota": quota, "limit": {"H100-80GB": 16}})
    client.submit({"name": "a", "queue": "research", "gpus": 6, "cpus": 6, "command": ["x"]})
    lines = lines_of(at_terminal(server, "queues", columns=columns))
    assert all(len(line) <= columns for line in lines)
    rows = [line.split() for line in lines]
    assert rows[0] == ["QUEUE", "ORDER", "WAITS", "RESOURCE", "USED", "ASKED", "QUOTA", "LIMIT"]
    assert ["research", "best_effort", "1", "H100-80GB", "-", "-", "8", "16"] in rows
    assert ["any", "GPU", "-", "6", "-", "-"] in rows
    assert ["CPUs", "-", "6", "64", "-"] in rows
    assert ["GiB", "-", "6", "512", "-"] in rows
    client.queues.update("research", {"stop": "hold"})
    assert "STOP" in lines_of(at_terminal(server, "queues", columns=columns))[0]


def test_a_long_name_takes_one_line(server: str, client: Client) -> None:
    client.submit({"name": "n" * 63, "command": ["x"]})
    client.submit({"name": "short", "command": ["x"]})
    lines = lines_of(at_terminal(server, "list", columns=80))
    assert len(lines) == 3
    assert "nnnn\u2026 " in lines[2]
    assert "n" * 63 in at_terminal(server, "list", columns=200)


def test_the_end_of_a_group_is_said_once(server: str, client: Client, group_id: str) -> None:
    client.cancel(group_id)
    for command in ("why", "show"):
        lines = lines_of(at_terminal(server, command, group_id, columns=120))
        assert "status       Cancelled by admin" in lines
