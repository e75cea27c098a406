"""What a stack consists of, in the order in which it is started."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from workers.embedded.postgres import PostgresServer
from workers.embedded.valkey import ValkeyServer
from workers.stack.options import StackOptions
from workers.stack.process import ServiceProcess
from workers.stack.servers import ServerPart


class Part(Protocol):
    """Something that runs, is started again when it died, and is stopped."""

    @property
    def name(self) -> str: ...

    @property
    def log(self) -> Path: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def is_running(self) -> bool: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def end_leftover(self) -> bool: ...

    def last_words(self) -> str: ...


class Parts:
    """Stopped in the opposite order: first who takes requests, then who acts on them, then the stores."""

    def __init__(self, options: StackOptions) -> None:
        self.postgres = ServerPart(
            "postgres", PostgresServer, data=options.data / "postgres", sockets=options.sockets
        )
        self.valkey = ServerPart(
            "valkey", ValkeyServer, data=options.data / "valkey", sockets=options.sockets
        )
        self.migrate, self.worker, self.dispatcher, self.ticker, self.api = (
            ServiceProcess(name, logs=options.logs, records=options.records)
            for name in ("migrate", "worker", "dispatcher", "ticker", "api")
        )

    @property
    def servers(self) -> tuple[ServerPart, ...]:
        return (self.postgres, self.valkey)

    @property
    def processes(self) -> tuple[ServiceProcess, ...]:
        return (self.worker, self.dispatcher, self.ticker, self.api)

    @property
    def watched(self) -> tuple[Part, ...]:
        return (*self.servers, *self.processes)

    @property
    def stop_order(self) -> tuple[tuple[Part, ...], ...]:
        """Stages; the parts of one are stopped at the same time."""
        return (
            (self.ticker, self.api),
            (self.migrate, self.worker, self.dispatcher),
            (self.valkey,),
            (self.postgres,),
        )
