"""The embedded PostgreSQL is durable, private, and starts under every user."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from pathlib import Path
from typing import LiteralString

import psutil
import psycopg
import pytest

from tests.integration.embedded.conftest import StartOwner
from workers.embedded.child import ServerFailed, ServerInUse
from workers.embedded.folders import FolderUnusable
from workers.embedded.postgres import UNSAFE_FAST_OPTIONS, PostgresServer
from workers.embedded.postgres_lock import drop_stale_locks

is_root = os.geteuid() == 0


def start(folder: Path) -> PostgresServer:
    return PostgresServer.start(folder / "postgres", socket_dir=folder / "sockets")


def run(server: PostgresServer, statement: LiteralString) -> list[tuple[object, ...]]:
    with psycopg.connect(host=str(server.socket_folder), user="muster", dbname="postgres") as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_a_second_start_finds_what_the_first_wrote(server_folder: Path) -> None:
    with start(server_folder) as server:
        run(server, "CREATE TABLE kept AS SELECT 7 AS seven")
    with start(server_folder) as server:
        assert run(server, "SELECT seven FROM kept") == [(7,)]


def test_what_was_committed_survives_sigkill(server_folder: Path) -> None:
    with start(server_folder) as server:
        run(server, "CREATE TABLE kept AS SELECT 7 AS seven")
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait()
        # At once, while the killed server's last children still hold its memory.
        with start(server_folder) as again:
            assert run(again, "SELECT seven FROM kept") == [(7,)]


def test_a_killed_server_that_nobody_has_reaped_does_not_stop_the_next(server_folder: Path) -> None:
    with start(server_folder) as server:
        os.kill(server.pid, signal.SIGKILL)
        # It stays in the process table, and PostgreSQL would take it for alive.
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
        with start(server_folder) as again:
            assert run(again, "SELECT 7") == [(7,)]


def test_a_lock_that_names_somebody_else_does_not_stop_it(server_folder: Path) -> None:
    """After a restart of the machine pids are handed out anew."""
    with start(server_folder) as server:
        owner = (server.data_dir / "cluster").stat().st_uid
        locks = [server.data_dir / "cluster" / "postmaster.pid", *server.socket_folder.glob("*.lock")]
        texts = [lock.read_text() for lock in locks]
    with subprocess.Popen(["sleep", "60"], user=owner) as bystander:
        for lock, text in zip(locks, texts, strict=True):
            lock.write_text("\n".join([str(bystander.pid), *text.split("\n")[1:]]))
            os.chown(lock, owner, -1)
        with start(server_folder) as again:
            assert run(again, "SELECT 7") == [(7,)]
        assert bystander.poll() is None
        bystander.kill()


def test_a_server_at_work_is_left_alone(server_folder: Path) -> None:
    with start(server_folder) as server:
        cluster = server.data_dir / "cluster"
        socket_lock = next(server.socket_folder.glob("*.lock"))
        drop_stale_locks(cluster, socket_lock)
        assert (cluster / "postmaster.pid").exists()
        assert socket_lock.exists()


def test_it_listens_on_a_private_unix_socket_only(server_folder: Path) -> None:
    with start(server_folder) as server:
        assert psutil.Process(server.pid).net_connections(kind="inet") == []
        assert server.socket_folder.stat().st_mode & 0o777 == 0o700
        assert (server.data_dir / "cluster").stat().st_mode & 0o777 == 0o700
        assert server.log.stat().st_mode & 0o777 == 0o600


def test_ctrl_c_does_not_reach_it(server_folder: Path) -> None:
    with start(server_folder) as server:
        assert os.getsid(server.pid) == server.pid


def test_stopping_leaves_no_process_and_no_record(server_folder: Path) -> None:
    server = start(server_folder)
    family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
    server.stop()
    assert [process for process in family if process.is_running()] == []
    assert not (server.data_dir / "server.json").exists()


def test_a_too_long_socket_path_falls_back_to_a_short_one(server_folder: Path) -> None:
    deep = server_folder / ("d" * 100)
    with PostgresServer.start(server_folder / "postgres", socket_dir=deep) as server:
        assert len(str(server.socket_folder)) < 60
        assert server.socket_folder.stat().st_mode & 0o777 == 0o700
        assert run(server, "SELECT 1") == [(1,)]
    server.socket_folder.rmdir()


def test_a_served_folder_is_not_served_twice(server_folder: Path) -> None:
    with start(server_folder) as server:
        with pytest.raises(ServerInUse, match=str(server.pid)):
            start(server_folder)
        assert run(server, "SELECT 1") == [(1,)]


def test_a_refused_setting_says_what_the_server_said(server_folder: Path) -> None:
    with pytest.raises(ServerFailed, match="no_such_setting"):
        PostgresServer.start(
            server_folder / "postgres",
            socket_dir=server_folder / "sockets",
            options={**UNSAFE_FAST_OPTIONS, "no_such_setting": "1"},
        )
    assert not (server_folder / "postgres" / "server.json").exists()


def test_a_cluster_that_was_cut_short_is_made_anew(server_folder: Path) -> None:
    draft = server_folder / "postgres" / "cluster.new"
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("18\n")
    (server_folder / "postgres").chmod(0o711)
    with start(server_folder) as server:
        assert run(server, "SELECT 1") == [(1,)]


def test_a_missing_locale_does_not_matter(start_owner: StartOwner) -> None:
    owner = start_owner(environment={"PATH": "/usr/bin:/bin", "LANG": "xx_YY.UTF-8", "LC_ALL": "xx_YY.UTF-8"})
    assert psutil.pid_exists(owner.postgres_pid)


@pytest.mark.skipif(not is_root, reason="only root drops its rights")
def test_root_hands_it_to_nobody(server_folder: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    with start(server_folder) as server:
        process = psutil.Process(server.pid)
        assert set(process.uids()) == {nobody.pw_uid}
        assert set(process.gids()) == {nobody.pw_gid}
        groups = Path(f"/proc/{server.pid}/status").read_text().split("Groups:")[1].splitlines()[0]
        assert groups.strip() == ""


@pytest.mark.skipif(not is_root, reason="only root drops its rights")
def test_a_folder_closed_to_nobody_is_refused_and_left_closed(server_folder: Path) -> None:
    closed = server_folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(FolderUnusable, match="closed"):
        start(closed)
    assert closed.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not is_root, reason="only root drops its rights")
def test_a_socket_folder_closed_to_nobody_falls_back(server_folder: Path) -> None:
    closed = server_folder / "closed"
    closed.mkdir(mode=0o700)
    with PostgresServer.start(server_folder / "postgres", socket_dir=closed) as server:
        assert closed not in server.socket_folder.parents
        assert run(server, "SELECT 1") == [(1,)]
    server.socket_folder.rmdir()
