"""Where submits go: a stack whose cluster is full, and a bare handler beside it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import create_engine

from bench.http_load import Target
from bench.servers import require_fsync
from bench.submit import bare
from bench.waiting import wait_for
from service.client import Client
from workers.embedded import child
from workers.stack import Stack

#: What is submitted: one member with one GPU that runs until it is told to stop.
GROUP = {"name": "bench", "members": 1, "gpus": 1, "command": ["simulate"]}


@dataclass(frozen=True, slots=True)
class Targets:
    single: Target
    batch: Target


@dataclass(frozen=True, slots=True)
class BareServer:
    pid: int
    port: int


def full(stack: Stack, *, nodes: int, gpus: int) -> Targets:
    """Where to submit, once the cluster of `nodes` with `gpus` each is full."""
    with stack.client() as client:
        fill(client, nodes * gpus)
        port, key = int(stack.url.rpartition(":")[2]), client.address.key or ""
    return Targets(
        single=Target(port=port, path="/v1/groups", key=key),
        batch=Target(port=port, path="/v1/groups/batch", key=key),
    )


def fill(client: Client, gpus: int) -> None:
    """Groups that run until they are told to stop hold every GPU."""
    client.submit_batch([GROUP] * gpus)
    wait_for(lambda: sum(node.gpus_held for node in client.nodes.list()) == gpus, "the cluster is full")


@contextmanager
def bare_server(stack: Stack) -> Iterator[BareServer]:
    """The bare handler in a process of its own, on the stores of the stack."""
    database_url, redis_url = stack.parts.postgres.url, stack.parts.valkey.url
    engine = create_engine(database_url)
    try:
        require_fsync(engine)
        bare.make_tables(engine)
    finally:
        engine.dispose()
    port = _free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.submit.bare", str(port)],
        env={**os.environ, "MUSTER_DATABASE_URL": database_url, "MUSTER_REDIS_URL": redis_url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: _listens(port), "the bare handler listens")
        yield BareServer(process.pid, port)
    finally:
        child.stop(process, signal.SIGTERM, grace_seconds=10.0)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
