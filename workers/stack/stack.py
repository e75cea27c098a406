"""One stack: start, wait until it is ready, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self, TypeVar

from service.client import Client, ClientError
from service.client.address import Address, read_admin_key
from workers.stack.errors import StackFailed
from workers.stack.journal import Journal
from workers.stack.lock import DataLock
from workers.stack.nodes import declare_nodes
from workers.stack.options import HOST, StackOptions
from workers.stack.parts import Part, Parts
from workers.stack.places import choose_port, forget_url, make_data_folder, remember_url
from workers.stack.watch import Watch

AnyPart = TypeVar("AnyPart", bound=Part)

_MIGRATE_SECONDS = 120.0
_READY_SECONDS = 60.0
_ASK_SECONDS = 0.1


class Stack:
    """PostgreSQL, Valkey, API, worker, dispatcher and ticker on one data folder.

    It prints nothing; `data/logs/service` holds what the processes say, and what the stack itself
    says in `stack.log`. Members of groups are not part of it: they live on when it stops, and the
    next stack on the same folder adopts them.
    """

    def __init__(self, options: StackOptions) -> None:
        self.options = options
        self.parts = Parts(options)
        self._lock = DataLock(options.data, options.records)
        self._journal = Journal(options.logs / "stack.log")
        self._watch: Watch | None = None
        self._nodes = options.nodes
        self._port = options.port

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def client(self) -> Client:
        """A client with the admin's key."""
        key = self.options.environ.get("MUSTER_API_KEY") or read_admin_key(self.options.data)
        return Client(Address(self.url, key))

    def start(self) -> None:
        """Start every part and return; `wait_ready` waits until all of them answer.

        Raises NodesWrong, SettingsWrong, AlreadyRunning, PortTaken, DataFolderUnusable or StackFailed;
        then nothing is left running.
        """
        # 1. What can be seen to be wrong is; the folder is ours alone.
        self._nodes = declare_nodes(self.options.nodes, launcher=self.options.launcher)
        self.options.check(nodes=self._nodes)
        make_data_folder(self.options.data)
        self._lock.take()
        try:
            self.options.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            # 2. What a killed stack left is ended; members are not among it.
            self._end_leftovers()
            # 3. Nothing is started if the API could not be reached.
            self._port = choose_port(self.options.port)
            # 4. Stores, schema, processes.
            self._start_servers()
            self._start_processes()
        except BaseException:
            self.stop()
            raise
        # 5. Who dies is started again.
        self._watch = Watch(self.parts.watched, self._journal)
        self._watch.start()
        remember_url(self.options.data, self.url)

    def wait_ready(self, *, seconds: float = _READY_SECONDS) -> None:
        """Wait until the API answers for all parts and the dispatcher has shown its nodes.

        Raises StackFailed after `seconds`, naming what is missing.
        """
        deadline = time.monotonic() + seconds
        missing = "the API does not answer"
        while time.monotonic() < deadline:
            missing = self._find_missing()
            if not missing:
                self._journal.write("ready", url=self.url)
                return
            time.sleep(_ASK_SECONDS)
        raise StackFailed(f"not ready after {seconds:g} s: {missing}; see the logs in {self.options.logs}")

    def stop(self) -> None:
        """Stop every part in order. Members live on. Nothing happens if the stack does not run."""
        if not self._lock.is_held:
            return
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        for stage in self.parts.stop_order:
            _at_once(stage, lambda part: part.stop())
        forget_url(self.options.data)
        self._lock.release()

    def _end_leftovers(self) -> None:
        for stage in self.parts.stop_order:
            for part in stage:
                if part.end_leftover():
                    self._journal.write(f"ended the {part.name} of an earlier stack", level="warning")

    def _start_servers(self) -> None:
        self._journal.write("starting PostgreSQL and Valkey")
        _at_once(self.parts.servers, lambda part: part.start())

    def _start_processes(self) -> None:
        environment = self.options.environment(
            port=self._port,
            nodes=self._nodes,
            database_url=self.parts.postgres.url,
            redis_url=self.parts.valkey.url,
        )
        for process in (self.parts.migrate, *self.parts.processes):
            process.environment = environment
        self._journal.write("bringing the database to the newest schema")
        _at_once((self.parts.migrate,), lambda process: process.run(seconds=_MIGRATE_SECONDS))
        _at_once(self.parts.processes, lambda process: process.start())
        for process in self.parts.processes:
            self._journal.write(f"started {process.name}", pid=process.pid)

    def _find_missing(self) -> str:
        """Say what does not answer yet; empty when all do."""
        try:
            with self.client() as client:
                client.ready()
                return "" if client.nodes.list() else "the dispatcher has not shown any node"
        except ClientError as error:
            return str(error)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _at_once(parts: Sequence[AnyPart], action: Callable[[AnyPart], None]) -> None:
    """Do `action` for all parts, in threads; all are done, also if one fails, before that is raised.

    Ctrl-C interrupts the main thread alone, so nothing is started of which its part does not know.
    """
    pool = ThreadPoolExecutor(max_workers=len(parts))
    try:
        done = [pool.submit(action, part) for part in parts]
        wait(done)
    finally:
        pool.shutdown()
    for each in done:
        each.result()
