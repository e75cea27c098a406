"""The embedded Valkey is durable, private, and refuses to forget."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from workers.embedded.child import ServerFailed, ServerInUse
from workers.embedded.valkey import ValkeyServer


def start(folder: Path) -> ValkeyServer:
    return ValkeyServer.start(folder / "valkey", socket_dir=folder / "sockets")


def ask(server: ValkeyServer, *command: str) -> Any:
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        return client.execute_command(*command)


def test_a_second_start_finds_what_the_first_wrote(server_folder: Path) -> None:
    with start(server_folder) as server:
        ask(server, "SET", "kept", "7")
    with start(server_folder) as server:
        assert ask(server, "GET", "kept") == "7"


def test_what_was_answered_survives_sigkill(server_folder: Path) -> None:
    with start(server_folder) as server:
        ask(server, "SET", "kept", "7")
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait()
        with start(server_folder) as again:
            assert ask(again, "GET", "kept") == "7"


def test_it_never_evicts_and_appends_each_second(server_folder: Path) -> None:
    with start(server_folder) as server:
        assert ask(server, "CONFIG", "GET", "maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert ask(server, "CONFIG", "GET", "append*") == {
            "appendonly": "yes",
            "appendfsync": "everysec",
            "appendfilename": "appendonly.aof",
            "appenddirname": "appendonlydir",
        }


def test_it_listens_on_a_private_unix_socket_only(server_folder: Path) -> None:
    with start(server_folder) as server:
        assert psutil.Process(server.pid).net_connections(kind="inet") == []
        assert server.socket.parent.stat().st_mode & 0o777 == 0o700
        assert server.data_dir.stat().st_mode & 0o777 == 0o700


def test_ctrl_c_does_not_reach_it(server_folder: Path) -> None:
    with start(server_folder) as server:
        assert os.getsid(server.pid) == server.pid


def test_a_too_long_socket_path_falls_back_to_a_short_one(server_folder: Path) -> None:
    deep = server_folder / ("d" * 100)
    with ValkeyServer.start(server_folder / "valkey", socket_dir=deep) as server:
        assert len(str(server.socket)) < 60
        assert ask(server, "PING") in {True, "PONG"}
    server.socket.parent.rmdir()


def test_a_folder_with_a_blank_and_a_quote_in_its_name_works(server_folder: Path) -> None:
    with start(server_folder / 'a "b" c') as server:
        assert ask(server, "PING") in {True, "PONG"}
    server.socket.parent.rmdir()


def test_clients_can_tell_about_themselves_whatever_the_folder_is_called(server_folder: Path) -> None:
    """CLIENT INFO holds the path of the socket, and redis-py takes it apart at blanks."""
    with start(server_folder / "sp ace") as server, redis.Redis.from_url(server.url) as client:
        assert client.client_info()["db"] == 0
    server.socket.parent.rmdir()


def test_a_served_folder_is_not_served_twice(server_folder: Path) -> None:
    with start(server_folder) as server:
        with pytest.raises(ServerInUse, match=str(server.pid)):
            start(server_folder)
        assert ask(server, "PING") in {True, "PONG"}


def test_a_refused_directive_says_what_the_server_said(server_folder: Path) -> None:
    with pytest.raises(ServerFailed, match="no-such-directive"):
        ValkeyServer.start(
            server_folder / "valkey",
            socket_dir=server_folder / "sockets",
            options={"no-such-directive": "1"},
        )
    assert not (server_folder / "valkey" / "server.json").exists()
