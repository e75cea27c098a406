"""Connections that cost more than they should: stalled, endless, unread or simply many."""

from __future__ import annotations

import contextlib
import json
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import psutil
import pytest
from redis import Redis
from sqlalchemy import Engine, create_engine, text

from service.api.app import create_app
from service.api.connections import MOST_HEAD_BYTES, MOST_HEADERS
from service.api.refusals import Refused
from service.api.server import make_server
from service.settings import Settings
from tests import servers
from tests.integration.api.waiting import wait_until
from tests.servers import Databases
from tests.serving import KEY, Served, serving, serving_alone
from workers.embedded.valkey import ValkeyServer

HEAD_SECONDS, BODY_SECONDS, UNREAD_SECONDS, CONNECTIONS = 1.5, 2.0, 2.0, 300
BOUNDS = {
    "request_head_seconds": HEAD_SECONDS,
    "request_body_seconds": BODY_SECONDS,
    "unread_answer_seconds": UNREAD_SECONDS,
    "max_connections": CONNECTIONS,
}
#: A sweep comes twice a second, and the machine may be busy.
MARGIN_SECONDS = 3.0


@pytest.fixture(scope="module")
def api(
    databases: Databases, inventory_server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("data")
    with serving_alone(databases, inventory_server, data, **BOUNDS) as served:
        yield served


@pytest.fixture
def client(api: Served) -> Iterator[httpx.Client]:
    with api.caller() as client:
        yield client


def connect(api: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", api.port), timeout=20)


def head(method: str = "POST", path: str = "/v1/groups", *lines: str) -> bytes:
    given = [f"{method} {path} HTTP/1.1", "Host: muster", f"Authorization: Bearer {KEY}", *lines]
    return "\r\n".join([*given, "", ""]).encode()


def rest_of(connection: socket.socket) -> bytes:
    """Everything until the other side closes."""
    received = b""
    try:
        while chunk := connection.recv(65_536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def problem_of(received: bytes) -> tuple[int, str]:
    top, _, body = received.partition(b"\r\n\r\n")
    assert b"application/problem+json" in top, received[:500]
    return int(top.split(b" ", 2)[1]), json.loads(body)["type"]


def refused(client: httpx.Client, reason: str) -> int:
    # Over a connection of its own: an idle one may be closed while it is asked for more.
    with httpx.Client(base_url=client.base_url, timeout=20) as fresh:
        lines = fresh.get("/metrics").text.splitlines()
    (line,) = [each for each in lines if each.startswith(f'muster_refused_total{{reason="{reason}"}}')]
    return round(float(line.rpartition(" ")[2]))


def groups(client: httpx.Client) -> int:
    return len(client.get("/v1/groups").json()["groups"])


@pytest.mark.parametrize(
    ("sent", "seconds", "status"),
    [
        pytest.param(b"", HEAD_SECONDS, None, id="nothing"),
        pytest.param(b"POST /v1/gro", HEAD_SECONDS, 408, id="half a line"),
        pytest.param(head()[:-2], HEAD_SECONDS, 408, id="half a head"),
        pytest.param(
            head("POST", "/v1/groups", "Content-Length: 100") + b'{"na', BODY_SECONDS, 408, id="half a body"
        ),
        pytest.param(
            head("POST", "/v1/groups", "Transfer-Encoding: chunked") + b'5\r\n{"nam\r\n',
            BODY_SECONDS,
            408,
            id="half the chunks",
        ),
    ],
)
def test_what_does_not_come_whole_is_given_up(
    api: Served, client: httpx.Client, sent: bytes, seconds: float, status: int | None
) -> None:
    before = groups(client)
    with connect(api) as connection:
        began_at = time.monotonic()
        connection.sendall(sent)
        received = rest_of(connection)
        took = time.monotonic() - began_at
    assert seconds <= took <= seconds + MARGIN_SECONDS
    if status is None:
        assert received == b""
    else:
        assert problem_of(received) == (status, "/problems/request-timeout")
    assert groups(client) == before


def test_a_client_that_sends_a_byte_now_and_then_is_given_up_too(api: Served) -> None:
    for sent, seconds in (
        (head()[:-2], HEAD_SECONDS),
        (head("POST", "/v1/groups", "Content-Length: 999"), BODY_SECONDS),
    ):
        with connect(api) as connection:
            connection.sendall(sent)
            connection.settimeout(0.2)
            began_at, received = time.monotonic(), b""
            while not received:
                assert time.monotonic() - began_at < seconds + MARGIN_SECONDS
                try:
                    received = connection.recv(65_536)
                except TimeoutError:
                    connection.sendall(b"a")
            assert problem_of(received)[0] == 408


def test_many_half_sent_bodies_stop_nobody(api: Served, client: httpx.Client) -> None:
    """Far more of them than there are threads; while they last and after, others are served."""
    half = head("POST", "/v1/groups", "Content-Length: 100000") + b'{"name": "half", "command": ["'
    before = groups(client)
    with ExitStack() as opened:
        stalled = [opened.enter_context(connect(api)) for _ in range(200)]
        for connection in stalled:
            connection.sendall(half)
        longest = 0.0
        for number in range(20):
            began_at = time.monotonic()
            client.post("/v1/groups", json={"name": f"whole-{number}"}).raise_for_status()
            longest = max(longest, time.monotonic() - began_at)
        assert client.get("/readyz").status_code == 200
        for connection in stalled[:100]:
            connection.close()
        assert [problem_of(rest_of(connection))[0] for connection in stalled[100:]] == [408] * 100
    assert longest < 1.0
    assert groups(client) == before + 20
    assert not api.lines_of("unhandled_error")


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(
            b"".join(b"X-%d: y\r\n" % number for number in range(MOST_HEADERS + 1)) + b"\r\n", id="many"
        ),
        pytest.param(b"X-Long: " + b"y" * (MOST_HEAD_BYTES * 4), id="long and endless"),
        pytest.param(b"".join(b"X-%d: y\r\n" % number for number in range(50_000)), id="very many"),
    ],
)
def test_a_head_without_end_is_refused(api: Served, client: httpx.Client, bomb: bytes) -> None:
    before = refused(client, "large_head")
    with connect(api) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(head("GET", "/v1/groups")[:-2] + bomb)  # refused before all of it is sent
        received = rest_of(connection)
    if received:
        assert problem_of(received) == (431, "/problems/head-too-large")
    assert refused(client, "large_head") == before + 1


def test_garbage_behind_a_request_does_not_take_its_answer(api: Served, client: httpx.Client) -> None:
    body = b'{"name": "first"}'
    with connect(api) as connection:
        length = f"Content-Length: {len(body)}"
        connection.sendall(head("POST", "/v1/groups", length) + body + b"\x00garbage\r\n\r\n")
        received = rest_of(connection)
    assert received.startswith(b"HTTP/1.1 201 ")
    assert received.count(b"HTTP/1.1 ") == 1
    for garbage in (b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 10 + b"!!\r\n\r\n"):
        with connect(api) as connection:
            connection.sendall(garbage)
            assert problem_of(rest_of(connection)) == (400, "/problems/bad-request")
    assert client.get("/healthz").status_code == 200


def test_much_garbage_behind_a_request_does_not_cost_its_answer(api: Served) -> None:
    """What was sent and not read would reset the connection, and the answer would be lost with it."""
    body = b'{"name": "first"}'
    with connect(api) as connection:
        length = f"Content-Length: {len(body)}"
        connection.sendall(head("POST", "/v1/groups", length) + body + b"\x00" * 4 * 2**20)
        received = b""
        while chunk := connection.recv(65_536):
            received += chunk
    assert received.startswith(b"HTTP/1.1 201 ")


def test_garbage_in_one_piece_with_a_refused_head_does_not_take_its_answer(api: Served) -> None:
    large = head("GET", "/healthz", *(f"X-{number}: x" for number in range(MOST_HEADERS + 1)))
    with connect(api) as connection:
        connection.sendall(large + b"\x00garbage\r\n\r\n")
        received = rest_of(connection)
    assert problem_of(received) == (431, "/problems/head-too-large")
    assert received.count(b"HTTP/1.1 ") == 1
    assert not any("RuntimeError" in line for line in api.raw)


def test_a_refused_head_behind_a_request_does_not_take_its_answer(api: Served) -> None:
    body = b'{"name": "first"}'
    large = head("GET", "/healthz", *(f"X-{number}: x" for number in range(MOST_HEADERS + 1)))
    with connect(api) as connection:
        connection.sendall(head("POST", "/v1/groups", f"Content-Length: {len(body)}") + body + large)
        assert rest_of(connection) == b""


def test_requests_in_one_piece_are_answered_in_order(api: Served) -> None:
    ids = [f"request-{number}" for number in range(200)]
    with connect(api) as connection:
        for number, request_id in enumerate(ids):
            last = ["Connection: close"] if number == len(ids) - 1 else []
            connection.sendall(head("GET", "/healthz", f"X-Request-Id: {request_id}", *last))
        received = rest_of(connection)
    assert received.count(b"HTTP/1.1 200 ") == 200
    assert re.findall(rb"x-request-id: (\S+)", received) == [each.encode() for each in ids]


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        (["Content-Length: 5", "Content-Length: 6"], b"{}    "),
        (["Content-Length: -5"], b"{}"),
        (["Content-Length: nine"], b"{}"),
        (["Content-Length: 5", "Transfer-Encoding: chunked"], b"0\r\n\r\n"),
        (["Transfer-Encoding: chunked"], b"zz\r\n{}\r\n0\r\n\r\n"),
        (["Content-Length: 2"], b'{}{"name": "smuggled"}'),
    ],
)
def test_a_wrong_length_makes_no_group(
    api: Served, client: httpx.Client, lines: list[str], body: bytes
) -> None:
    before = groups(client)
    with connect(api) as connection:
        connection.sendall(head("POST", "/v1/groups", *lines) + body)
        received = rest_of(connection)
    assert received[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 422", b"HTTP/1.1 408"), received
    assert groups(client) == before


def test_a_connection_is_used_again_after_errors(api: Served) -> None:
    with api.caller() as client:
        for _ in range(20):
            assert client.post("/v1/groups", content=b"{").status_code == 400
            assert client.post("/v1/groups", json={"members": -1}).status_code == 422
            assert client.get("/v1/nothing").status_code == 404
            assert client.get("/v1/queues").status_code == 200
    with connect(api) as connection:
        for _ in range(3):
            connection.sendall(
                head("POST", "/v1/groups", "Content-Length: 2", "Content-Type: text/x") + b"{}"
            )
            received = b""
            while b"unsupported-media-type" not in received:
                received += connection.recv(65_536)
            assert received.startswith(b"HTTP/1.1 415 ")
            connection.sendall(head("GET", "/healthz"))
            while not received.endswith(b'{"status":"ok"}'):
                received += connection.recv(65_536)


def test_an_upgrade_that_is_not_offered_is_a_plain_request(api: Served) -> None:
    with connect(api) as connection:
        upgrade = (
            "Connection: upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Key: x",
            "Sec-WebSocket-Version: 13",
        )
        connection.sendall(head("GET", "/v1/queues", *upgrade))
        assert connection.recv(65_536).startswith((b"HTTP/1.1 200", b"HTTP/1.1 400"))


def test_idle_connections_make_room(api: Served, client: httpx.Client) -> None:
    """More than there may be: the ones that ask are served, and those that keep waiting go first."""
    before = refused(client, "connections")
    with ExitStack() as opened:
        for _ in range(CONNECTIONS + 100):
            opened.enter_context(connect(api))
        with httpx.Client(base_url=api.url, timeout=20) as fresh:
            assert fresh.get("/readyz").status_code == 200
        assert refused(client, "connections") >= before + 100


def test_a_connection_that_was_just_used_stays_among_many_idle_ones(
    api: Served, client: httpx.Client
) -> None:
    before = refused(client, "connections")
    with ExitStack() as opened:
        kept = opened.enter_context(connect(api))

        def ask() -> None:
            kept.sendall(head("GET", "/healthz"))
            received = b""
            while not received.endswith(b'{"status":"ok"}'):
                chunk = kept.recv(65_536)
                assert chunk, "it was closed"
                received += chunk

        for _ in range(CONNECTIONS - 50):
            opened.enter_context(connect(api))
        ask()
        for _ in range(100):
            opened.enter_context(connect(api))
        wait_until(lambda: refused(client, "connections") >= before + 20, seconds=MARGIN_SECONDS)
        ask()


def test_an_answer_that_nobody_reads_is_cut_off(api: Served, client: httpx.Client) -> None:
    """Neither memory nor other clients suffer."""
    document = len(client.get("/openapi.json").content)
    memory = psutil.Process(api.process.pid).memory_info().rss
    before = refused(client, "unread_answer")
    with ExitStack() as opened:
        for _ in range(20):
            connection = opened.enter_context(connect(api))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(head("GET", "/openapi.json") * 200)
        with ThreadPoolExecutor(4) as threads:
            assert set(threads.map(lambda _: client.get("/healthz").status_code, range(40))) == {200}
        grown = psutil.Process(api.process.pid).memory_info().rss - memory
        wait_until(lambda: refused(client, "unread_answer") >= before + 20, seconds=UNREAD_SECONDS + 10)
    assert grown < 20 * 20 * document


def test_bodies_that_are_received_at_once_are_bounded_in_sum(
    settings: Settings, engine: Engine, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.server.MAX_BODY_BYTES", 4096)  # of the sum: sixteen times as much
    app = create_app(settings, engine=engine, redis=redis)
    server, refusals = make_server(app, settings), app.state.refusals
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as opened:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            half = head("POST", "/v1/groups", "Content-Length: 100000") + b"x" * 1000
            stalled = []
            for _ in range(70):
                stalled.append(opened.enter_context(socket.create_connection(listener.getsockname()[:2], 20)))
                stalled[-1].sendall(half)
            wait_until(lambda: refusals.of(Refused.BODIES) >= 5)
            refused = [connection for connection in stalled if select.select([connection], [], [], 0)[0]]
            assert 5 <= len(refused) <= 7
            assert problem_of(rest_of(refused[0])) == (429, "/problems/too-many-requests")
            # Who was refused, and has not gone, counts no more.
            for _ in range(3):
                stalled.append(opened.enter_context(socket.create_connection(listener.getsockname()[:2], 20)))
                stalled[-1].sendall(head("POST", "/v1/groups", "Content-Length: 100000") + b"x" * 10)
            with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
                assert client.get("/healthz").status_code == 200
            assert not select.select(stalled[-3:], [], [], 0)[0]
            for connection in stalled:
                connection.close()
            with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
                key = {"Authorization": f"Bearer {KEY}"}
                assert client.post("/v1/groups", json={"name": "g"}, headers=key).status_code == 201
        finally:
            server.should_exit = True
            thread.join()


def test_a_stop_does_not_wait_for_streams(
    databases: Databases, inventory_server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    servers.empty_inventory(inventory_server)
    with databases.migrated() as database_url:
        data = tmp_path_factory.mktemp("data")
        with (
            serving(database_url=database_url, redis_url=inventory_server.url, data=data) as served,
            served.caller() as client,
        ):
            group_id = client.post("/v1/groups", json={"name": "g"}).json()["id"]
            path = f"/v1/groups/{group_id}/events"
            with client.stream("GET", path, headers={"Accept": "text/event-stream"}) as answer:
                lines = answer.iter_lines()
                while not next(lines).startswith("event: Submitted"):
                    pass
                began_at = time.monotonic()
                served.process.terminate()
                rest = "\n".join(lines)
                served.process.wait(15)
                took = time.monotonic() - began_at
        engine = create_engine(database_url)
        with engine.connect() as conn:
            assert conn.execute(text("SELECT count(*) FROM groups")).scalar_one() == 1
        engine.dispose()
    assert "event: end" not in rest
    assert took < 4.0
