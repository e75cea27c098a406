"""Gauges of the whole stack as shipped."""

from __future__ import annotations

from contextlib import ExitStack

import msgspec
from sqlalchemy import Engine, create_engine, text

from bench.check.gauge import Gauge
from bench.check.yardsticks import python_seconds
from bench.cpu import cpu_of
from bench.http_load import Target, drive
from bench.servers import require_fsync, short_folder, whole_stack
from bench.submit import bare
from bench.submit.targets import bare_server
from bench.waiting import wait_for
from service.client import Client
from workers.stack import Stack

_NODES, _GPUS = 25, 8
#: More than the cluster can hold: it waits for ever, and keeps nobody from starting.
_WAITS = {"name": "bench", "members": 2 * _NODES * _GPUS, "gpus": 1, "command": ["simulate"]}
_LIVES = {"name": "bench", "members": 1, "gpus": 1, "command": ["simulate", "--seconds", "0.05"]}
_CONNECTIONS, _REQUESTS, _GROUPS = 8, 50, 500
_ROUNDS = 11

_ENDED = "SELECT /* bench */ count(*) FROM units WHERE status = 'Succeeded'"


def stack_gauges(close: ExitStack) -> list[Gauge]:
    """Submits over HTTP in calls of a bare handler, and the CPU of all processes for the whole life of
    groups in Python's work."""
    folder = close.enter_context(short_folder())
    stack = close.enter_context(
        whole_stack(folder, nodes=f"{_NODES}x{_GPUS}xH100-80GB", launcher="simulated")
    )
    beside = close.enter_context(bare_server(stack))
    client = close.enter_context(stack.client())
    engine = create_engine(stack.parts.postgres.url)
    close.callback(engine.dispose)
    require_fsync(engine)
    port, key = int(stack.url.rpartition(":")[2]), client.address.key or ""
    submits = Target(port=port, path="/v1/groups", key=key)
    calls = Target(port=beside.port, path=bare.PATH)
    api = next(part.pid for part in stack.parts.watched if part.name == "api")
    assert api is not None
    return [
        Gauge(
            name="submit over HTTP, the API",
            product=lambda: _cpu_of(api, submits),
            yardstick=lambda: _cpu_of(beside.pid, calls),
            rounds=_ROUNDS,
        ),
        Gauge(
            name="whole life of a group, all processes",
            product=_Lives(stack, client, engine).cpu_seconds,
            yardstick=lambda: python_seconds(4),
            rounds=_ROUNDS,
        ),
    ]


def _cpu_of(pid: int, target: Target) -> float:
    """CPU seconds of the process that answers so many requests, on some connections at once."""
    body = msgspec.json.encode(_WAITS)
    return cpu_of(lambda: drive(target, lambda: iter([body] * _REQUESTS), connections=_CONNECTIONS), [pid])


class _Lives:
    def __init__(self, stack: Stack, client: Client, engine: Engine) -> None:
        self._stack, self._client, self._engine = stack, client, engine
        self._ended = 0

    def cpu_seconds(self) -> float:
        """Of every process of the stack, from the submission of a batch to its last end."""
        pids = [part.pid for part in self._stack.parts.watched if part.pid is not None]
        return cpu_of(self._live, pids)

    def _live(self) -> None:
        self._client.submit_batch([_LIVES] * _GROUPS)
        self._ended += _GROUPS
        wait_for(self._have_ended, "every group has ended", pause=0.05)

    def _have_ended(self) -> bool:
        with self._engine.connect() as conn:
            return int(conn.execute(text(_ENDED)).scalar_one()) == self._ended
