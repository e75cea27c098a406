"""A small real HTTP server that gives the answers that a test wrote down."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from service.client import Client
from service.client.address import Address


@dataclass(frozen=True)
class Answer:
    """`cuts`: the connection is closed without an answer."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    cuts: bool = False


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class ScriptedServer:
    """Gives `answers` in order; the last one again and again. `asked` is what came."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []

    def next_answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def serving(*answers: Answer) -> Iterator[tuple[ScriptedServer, Client]]:
    """The server and a client for it."""
    script = ScriptedServer(*answers)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(script))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        with Client(Address(f"http://127.0.0.1:{server.server_address[1]}", "the-key")) as client:
            yield script, client
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(script: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = script.next_answer(Asked(self.command, self.path, dict(self.headers), body))
            if answer.cuts:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in ({"Content-Length": str(len(answer.body))} | dict(answer.headers)).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_DELETE = do_PATCH = answer  # noqa: N815 - the names that the library calls

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
