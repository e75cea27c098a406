"""The API's process, spoken to over raw sockets."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.api.waiting import wait_until
from tests.servers import Databases
from tests.serving import KEY, Served, serving_alone
from workers.embedded.valkey import ValkeyServer


@pytest.fixture(scope="module")
def api(
    databases: Databases, inventory_server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("data")
    with serving_alone(databases, inventory_server, data) as served:
        yield served


def connect(api: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", api.port), timeout=10)


def head(
    path: str = "/v1/queues", *, length: int | None, method: str = "POST", extra: str = "", ends: bool = True
) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: muster",
        f"Authorization: Bearer {KEY}",
        "Content-Type: application/json",
        *(["Connection: close"] if ends else []),
    ]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + f"\r\n{extra}\r\n").encode()


def is_whole(received: bytes) -> bool:
    header, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", header)
    return length is not None and len(body) >= int(length[1])


def answer(connection: socket.socket) -> tuple[int, dict[str, object]]:
    """Status and JSON body of the one answer on this connection."""
    received = b""
    while not is_whole(received) and (chunk := connection.recv(65_536)):
        received += chunk
    header, _, body = received.partition(b"\r\n\r\n")
    assert b"application/problem+json" in header, received[:500]
    return int(header.split(b" ", 2)[1]), json.loads(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"name": "a', id="cut off"),
        pytest.param(b"[" * 1_000_000, id="deep"),
        pytest.param(b'{"name":' * 200_000, id="deep objects"),
        pytest.param(b'{"name": "\xc3\x28"}', id="bad UTF-8"),
        pytest.param(b'{"name": "a\\u0000b"}', id="NUL"),
        pytest.param(b'{"name": "q", "limit": {"mx": ' + b"9" * 5000 + b"}}", id="huge number"),
        pytest.param(b'{"name": "q", "limit": {"mx": -1}}', id="negative"),
        pytest.param(b'{"name": "q", "limit": {"mx": 1e999}}', id="infinite"),
        pytest.param(b"\x00" * 1000, id="zeros"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_broken_bodies_are_problems(api: Served, body: bytes) -> None:
    with connect(api) as connection:
        connection.sendall(head(length=len(body)) + body)
        status, problem = answer(connection)
    assert status in (400, 422), problem
    assert problem["status"] == status


def test_a_body_that_says_it_is_too_large_is_refused_unread(api: Served) -> None:
    with connect(api) as connection:
        connection.sendall(head(length=10**12))
        status, problem = answer(connection)
    assert (status, problem["type"]) == (413, "/problems/body-too-large")


@pytest.mark.parametrize("ends", [True, False], ids=["last request", "kept alive"])
def test_a_body_that_grows_too_large_is_refused(api: Served, ends: bool) -> None:
    with connect(api) as connection:
        connection.sendall(head(length=None, extra="Transfer-Encoding: chunked\r\n", ends=ends))
        # Well above the bound: the answer is there to be read though all of it is sent first.
        for _ in range(24):
            connection.sendall(b"100000\r\n" + b" " * 0x100000 + b"\r\n")
        status, problem = answer(connection)
    assert (status, problem["type"]) == (413, "/problems/body-too-large")


@pytest.mark.parametrize("ends", [True, False], ids=["last request", "kept alive"])
def test_a_refused_client_that_goes_on_sending_is_cut_off(api: Served, ends: bool) -> None:
    with connect(api) as connection:
        connection.sendall(head(length=10**12, ends=ends))
        assert answer(connection)[0] == 413
        connection.settimeout(0)
        wait_until(lambda: is_cut_off(connection))


def test_a_refused_client_whose_body_is_small_keeps_its_connection(api: Served) -> None:
    wrong = head(length=2000, ends=False).replace(KEY.encode(), b"wrong")
    with connect(api) as connection:
        for _ in range(3):
            connection.sendall(wrong)
            assert answer(connection)[0] == 401
            connection.sendall(b" " * 2000)


def is_cut_off(connection: socket.socket) -> bool:
    """Sends as much as there is room for."""
    try:
        connection.send(b" " * 0x10000)
    except BlockingIOError:
        return False
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


def test_a_client_that_leaves_in_mid_body_is_no_error(api: Served) -> None:
    for _ in range(3):
        with connect(api) as connection:
            connection.sendall(head(length=1000) + b'{"name": "half')
    wait_until(lambda: len([line for line in api.lines_of("request") if line["status"] == 400]) >= 3)
    assert not api.lines_of("unhandled_error")
    with connect(api) as connection:
        connection.sendall(head("/v1/queues/half", length=None, method="GET"))
        assert answer(connection)[0] == 404


def test_a_request_is_logged_without_what_it_says(api: Served) -> None:
    body = b'{"user": "very-secret-user", "role": "nonsense"}'
    with connect(api) as connection:
        connection.sendall(
            head("/v1/keys?token=secret-in-query", length=len(body), extra="X-Request-Id: my-id-1\r\n") + body
        )
        assert answer(connection)[0] == 422
    wait_until(lambda: any(line.get("request_id") == "my-id-1" for line in api.lines_of("request")))
    (line,) = [line for line in api.lines_of("request") if line["request_id"] == "my-id-1"]
    assert line.keys() == {
        "event", "level", "timestamp", "process", "request_id", "method", "path", "status", "milliseconds",
    }  # fmt: skip
    assert (line["method"], line["path"], line["status"]) == ("POST", "/v1/keys", 422)
    everything = "".join(api.raw)
    assert KEY not in everything
    assert "secret" not in everything


def test_times_of_requests_are_kept_by_route(api: Served) -> None:
    for name in ("one", "two"):
        with connect(api) as connection:
            connection.sendall(head(f"/v1/queues/{name}", length=None, method="GET"))
            assert answer(connection)[0] == 404
    text = urllib.request.urlopen(f"{api.url}/metrics", timeout=10).read().decode()
    line = 'muster_request_seconds_count{method="GET",route="/v1/queues/{queue_name}",status="4xx"}'
    assert f"{line} " in text
    assert 'route="/v1/queues/one"' not in text


def test_a_taken_port_is_said_plainly(api: Served, tmp_path: Path) -> None:
    program = (
        "from service.api.server import run; from service.settings import Settings;"
        f"run(Settings(port={api.port}))"
    )
    second = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path.cwd(),
    )
    assert second.returncode == 1
    assert (
        second.stderr.strip() == f"Port {api.port} of 127.0.0.1 is taken. Choose another one (MUSTER_PORT)."
    )
