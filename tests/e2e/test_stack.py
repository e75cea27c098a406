"""The whole stack as `muster up` runs it, with real members: used, killed in parts, stopped, taken over."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.e2e.stacks import (
    MUSTER,
    NODES,
    Gate,
    Up,
    assert_clean,
    data_folder,
    environment,
    muster,
    processes_naming,
    wait_for,
    wait_gone,
    wait_status,
)
from workers.embedded.identity import find_identity, is_alive
from workers.stack import PortTaken, Stack, StackOptions

# One stack after the other: each takes the processors for itself while it starts.
pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300), pytest.mark.slow]

PARTS = ("api", "worker", "dispatcher", "ticker", "postgres", "valkey")


@pytest.fixture(scope="module")
def shared() -> Iterator[Up]:
    """A stack that several tests use one after the other."""
    with servers.server_folder() as folder, data_folder(folder) as data:
        up = Up(data)
        yield up
        assert up.stop() == 0


@pytest.fixture
def data(server_folder: Path) -> Iterator[Path]:
    """A data folder of one test, of which nothing runs any more afterwards."""
    with data_folder(server_folder) as folder:
        yield folder


# ------------------------------------------------------------------------------------ one running stack
def test_a_group_runs_as_real_processes_and_ends(shared: Up, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with shared.client() as client:
        group = client.submit(gate.group())
        assert group.status == "Pending"
        running = wait_status(client, group.id, "Running")
        assert [(place.node, place.gpus) for place in running.places] == [("node-1", 2)]
        members = gate.members()
        gate.open()
        ended = wait_status(client, group.id, "Succeeded")
        assert not ended.places
        for member in members:
            wait_gone(member)
        assert b"member 1 started" in b"".join(client.members(group.id).logs(1))
        assert_clean(client)


def test_what_does_not_fit_waits_whole_and_is_told_why(shared: Up, tmp_path: Path) -> None:
    first, second = Gate(tmp_path / "first"), Gate(tmp_path / "second")
    with shared.client() as client:
        a = client.submit(first.group(6, name="a"))
        wait_status(client, a.id, "Running")
        b = client.submit(second.group(6, name="b"))
        explanation = wait_for(
            lambda: found if (found := client.reasons(b.id)).position == 1 else None, "b has a position"
        )
        reason = explanation.reasons[0]
        assert (reason.code, reason.need, reason.have) == ("InsufficientGpus", 6, 2)
        said = muster("--data", shared.data, "why", b.id)
        assert said.returncode == 0
        assert said.stdout.startswith("InsufficientGpus\t6\t2\t")
        first.open()
        wait_status(client, a.id, "Succeeded")
        wait_status(client, b.id, "Running")
        second.open()
        wait_status(client, b.id, "Succeeded")


def test_a_second_stack_on_the_same_folder_is_refused(shared: Up) -> None:
    second = muster("up", "--data", shared.data, "--port", "0")
    assert second.returncode == 6
    assert f"already running on {shared.data} (pid {shared.process.pid})" in second.stderr
    with shared.client() as client:
        client.ready()


def test_the_folder_tells_clients_where_the_server_is(shared: Up) -> None:
    assert (shared.data / "server.url").read_text().strip() == shared.url
    nodes = muster("nodes", MUSTER_DATA=str(shared.data))
    assert nodes.returncode == 0
    assert nodes.stdout.startswith("node-1\tlocal\tready\t8 × H100-80GB\t")


def test_only_its_user_can_use_the_folder(shared: Up) -> None:
    for name in ("admin.key", "secret.key", "lock"):
        assert stat.S_IMODE((shared.data / name).stat().st_mode) == 0o600
    for name in ("logs/service", "sockets/postgres", "sockets/valkey"):
        assert stat.S_IMODE((shared.data / name).stat().st_mode) == 0o700
    assert stat.S_IMODE(shared.data.stat().st_mode) & 0o066 == 0


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_killed_comes_back_and_nothing_is_lost(shared: Up, tmp_path: Path, part: str) -> None:
    gate = Gate(tmp_path / "gate")
    with shared.client() as client:
        group = client.submit(gate.group())
        wait_status(client, group.id, "Running")
        members = gate.members()
        shared.kill(part)
        gate.open()
        ended = wait_status(client, group.id, "Succeeded")
        assert (ended.attempt, ended.generation, ended.restarts_used) == (1, 1, 0)
        for member in members:
            wait_gone(member)
        assert_clean(client)
        again = client.submit({"name": "after", "members": 8, "gpus": 1, "command": ["true"]})
        wait_status(client, again.id, "Succeeded")


def test_a_log_is_followed_over_a_restart_of_the_api(shared: Up, tmp_path: Path) -> None:
    script = 'echo before; while [ ! -e "$0/go" ]; do sleep 0.05; done; echo behind'
    with shared.client() as client:
        group = client.submit({"name": "talker", "command": ["sh", "-c", script, str(tmp_path)]})
        wait_status(client, group.id, "Running")
        with subprocess.Popen(
            [*MUSTER, "--data", str(shared.data), "logs", "-f", group.id],
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        ) as following:
            assert following.stdout is not None
            assert following.stdout.readline() == "before\n"
            shared.kill("api")
            (tmp_path / "go").touch()
            assert following.stdout.read() == "behind\n"
            assert following.wait(60) == 0


def test_a_group_is_watched_to_its_success(shared: Up, tmp_path: Path) -> None:
    file = tmp_path / "group.yaml"
    file.write_text("name: brief\nmembers: 2\ngpus: 1\ncommand: [sleep, '1']\n")
    said = muster("--data", shared.data, "submit", "--watch", file)
    assert (said.returncode, said.stderr) == (0, "")
    lines = [line.split("\t") for line in said.stdout.splitlines()]
    assert lines[-1][:2] == ["brief", "Succeeded"]
    assert len(lines) > 2  # the id, what came between, the end
    assert muster("--data", shared.data, "run", "--watch", "--", "false").returncode == 1


# ------------------------------------------------------------------------------------ stopping and starting
def test_stopping_leaves_members_and_the_next_stack_adopts_them(data: Path, tmp_path: Path) -> None:
    """By whichever signal it is stopped, one after the other."""
    gate = Gate(tmp_path / "gate")
    up = Up(data)
    with up.client() as client:
        group = client.submit(gate.group())
        wait_status(client, group.id, "Running")
    members = gate.members()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        parts = [up.identity(part) for part in PARTS]
        assert up.stop(number) == 0
        assert not any(is_alive(part) for part in parts)
        assert all(is_alive(member) for member in members)
        assert "Members go on" in up.output.read_text()
        up = Up(data)
        with up.client() as client:
            adopted = wait_status(client, group.id, "Running")
            assert (adopted.attempt, adopted.generation) == (1, 1)
            assert gate.members() == members
    with up.client() as client:
        gate.open()
        wait_status(client, group.id, "Succeeded")
        assert_clean(client)
    assert up.stop() == 0


def test_a_killed_stack_is_cleared_away_by_the_next_and_its_members_are_adopted(
    data: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    up = Up(data)
    with up.client() as client:
        group = client.submit(gate.group())
        wait_status(client, group.id, "Running")
    members = gate.members()
    left = [up.identity(part) for part in PARTS]
    up.process.kill()
    up.process.wait()
    assert all(is_alive(part) for part in left)
    again = Up(data)
    assert not any(is_alive(part) for part in left)
    assert all(is_alive(member) for member in members)
    with again.client() as client:
        gate.open()
        ended = wait_status(client, group.id, "Succeeded")
        assert (ended.attempt, ended.generation) == (1, 1)
        assert_clean(client)
    assert again.stop() == 0


def test_a_member_that_ended_while_the_stack_was_down_is_recorded_once(data: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    up = Up(data)
    with up.client() as client:
        group = client.submit(gate.group())
        wait_status(client, group.id, "Running")
    members = gate.members()
    up.stop()
    gate.open()
    for member in members:
        wait_gone(member)
    up = Up(data)
    with up.client() as client:
        ended = wait_status(client, group.id, "Succeeded")
        assert (ended.attempt, ended.generation, ended.succeeded_members) == (1, 1, 2)
        kinds = [event.kind for event in client.events(group.id).list()]
        assert kinds.count("Succeeded") == 1
        assert_clean(client)
    assert up.stop() == 0


@pytest.mark.parametrize("seconds", [0.8, 1.6, 3.2])
def test_stopping_while_it_starts_leaves_nothing(data: Path, seconds: float) -> None:
    process = subprocess.Popen(
        [*MUSTER, "up", "--data", str(data), "--port", "0", "--nodes", NODES],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode in {0, 130, -signal.SIGTERM}, said
    records = list(data.rglob("server.json"))
    assert records == []
    assert processes_naming(str(data)) == []


def test_down_stops_the_stack_from_elsewhere(data: Path) -> None:
    up = Up(data)
    parts = [up.identity(part) for part in PARTS]
    down = muster("down", "--data", data)
    assert down.returncode == 0
    assert f"(pid {up.process.pid})" in down.stdout
    assert up.process.wait(10) == 0
    assert not any(is_alive(part) for part in parts)
    assert not (data / "server.url").exists()
    again = muster("down", "--data", data)
    assert again.returncode == 0
    assert "is not running" in again.stdout


def test_down_ends_what_a_killed_stack_left(data: Path) -> None:
    up = Up(data)
    parts = [up.identity(part) for part in PARTS]
    up.process.kill()
    up.process.wait()
    down = muster("down", "--data", data)
    assert down.returncode == 0
    assert "a killed Muster left" in down.stdout
    assert not any(is_alive(part) for part in parts)


def test_down_with_stop_ends_members_and_the_next_stack_starts_their_group_again(
    data: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    up = Up(data)
    with up.client() as client:
        group = client.submit(gate.group())
        wait_status(client, group.id, "Running")
    members = gate.members()
    down = muster("down", "--data", data, "--stop", "--grace", "2")
    assert down.returncode == 0, down.stderr
    assert "Ended 2 members. Their groups recover under the next `muster up`." in down.stdout
    assert up.process.wait(10) == 0
    assert not any(is_alive(member) for member in members)
    gate.forget()
    up = Up(data)
    with up.client() as client:
        gate.open()
        ended = wait_status(client, group.id, "Succeeded")
        assert ended.restarts_used == 0
        assert (ended.attempt, ended.generation) != (1, 1)
        assert_clean(client)
    assert up.stop() == 0


def test_no_member_to_end_is_no_trouble(data: Path) -> None:
    assert muster("down", "--data", data, "--stop").returncode == 0
    data.mkdir()
    assert muster("down", "--data", data, "--stop").returncode == 0


# ------------------------------------------------------------------------------------ what is refused at once
def test_a_taken_port_is_said_before_anything_is_started(data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        up = muster("up", "--data", data, "--port", str(port))
    assert up.returncode == 6
    assert f"port {port} on 127.0.0.1 is taken" in up.stderr
    assert not (data / "postgres").exists()


def test_nodes_that_cannot_be_understood_are_said_before_anything_is_made(data: Path) -> None:
    up = muster("up", "--data", data, "--nodes", "8xH100")
    assert up.returncode == 2
    assert "8xH100" in up.stderr
    assert not data.exists()


def test_a_folder_that_cannot_be_made_is_named(server_folder: Path) -> None:
    (server_folder / "file").touch()
    up = muster("up", "--data", server_folder / "file" / "data", "--port", "0")
    assert up.returncode == 7
    assert "cannot be made" in up.stderr
    assert "--data" in up.stderr


# ------------------------------------------------------------------------------------ from Python
def test_a_stack_in_this_process(data: Path) -> None:
    options = StackOptions(data=data, port=0, nodes=NODES, environ=environment())
    with Stack(options) as stack:
        stack.wait_ready()
        with stack.client() as client:
            assert len(client.nodes.list()) == 1
        pids = [part.pid for part in stack.parts.watched]
    assert all(pid is not None and find_identity(pid) is None for pid in pids)


def test_a_stack_that_does_not_start_leaves_nothing(data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        stack = Stack(
            StackOptions(data=data, port=taken.getsockname()[1], nodes=NODES, environ=environment())
        )
        with pytest.raises(PortTaken):
            stack.start()
    assert [part.pid for part in stack.parts.watched] == [None] * 6
    # The lock is free again.
    with Stack(StackOptions(data=data, port=0, nodes=NODES, environ=environment())):
        pass


# ------------------------------------------------------------------------------------ as somebody else
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_without_a_home(server_folder: Path) -> None:
    """Twice in a row; without a home and a word about it everything lies below the temporary folder."""
    nobody = pwd.getpwnam("nobody").pw_uid
    _skip_unless_reachable(nobody)
    folder = server_folder / "tmp"
    folder.mkdir()
    os.chown(folder, nobody, nobody)
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(folder), "LANG": "nowhere.UTF-8"}
    data = folder / f"muster-{nobody}"
    try:
        for _ in range(2):
            up = Up(data, environ=environ, user=nobody)
            with up.client() as client:
                group = client.submit({"name": "who", "command": ["id", "-u"]})
                wait_status(client, group.id, "Succeeded")
                assert b"".join(client.members(group.id).logs(0)).strip() == str(nobody).encode()
            assert up.stop() == 0
    finally:
        command = [*MUSTER, "down", "--data", str(data), "--stop", "--grace", "1"]
        subprocess.run(command, user=nobody, group=nobody, extra_groups=[], env=environ, check=True)


def _skip_unless_reachable(user: int) -> None:
    """The checkout, or the Python that its environment was made with, may lie where only root can go."""
    command = [*MUSTER, "version"]
    try:
        done = subprocess.run(
            command, user=user, group=user, extra_groups=[], env={}, check=False, capture_output=True
        )
        is_reachable = done.returncode == 0
    except PermissionError:
        is_reachable = False
    if not is_reachable:
        pytest.skip("the checkout or its Python lies below a folder that nobody else can enter")
