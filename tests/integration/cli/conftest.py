"""The real application behind a real port, for the command line."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from service.api.app import create_app
from service.cli.main import run
from service.client import Client
from service.client.address import Address
from service.settings import Settings
from tests.serving import KEY


@pytest.fixture
def server(database_url: str, redis_url: str, tmp_path: Path) -> Iterator[str]:
    """The URL of an API whose admin has KEY. No cycle runs: what is submitted stays Pending."""
    settings = Settings(database_url=database_url, redis_url=redis_url, data=tmp_path, api_key=KEY)
    app = create_app(settings)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2)
        uvicorn_server = uvicorn.Server(config)
        thread = threading.Thread(target=uvicorn_server.run, kwargs={"sockets": [listening]})
        thread.start()
        deadline = time.monotonic() + 30
        while not uvicorn_server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            assert uvicorn_server.started
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            uvicorn_server.should_exit = True
            thread.join()


@pytest.fixture
def client(server: str) -> Iterator[Client]:
    with Client(Address(server, KEY)) as client:
        yield client


@dataclass(frozen=True)
class Said:
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]


class Muster:
    """Runs command lines in this process, without a terminal."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Said:
        self._capsys.readouterr()
        code = run(arguments)
        captured = self._capsys.readouterr()
        return Said(code, captured.out, captured.err)


@pytest.fixture
def muster(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Muster:
    """`muster` with the admin's key."""
    monkeypatch.setenv("MUSTER_URL", server)
    monkeypatch.setenv("MUSTER_API_KEY", KEY)
    monkeypatch.setenv("MUSTER_DATA", str(tmp_path))
    return Muster(capsys)
