"""A steady stream of submits that insists: what was not answered is sent again with its key."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from service.client import Client, ClientError
from service.client.address import Address
from tests.faults.journals import Body, Journal


def small_groups(journal: Journal) -> Iterator[Body]:
    """Of two to four members, without end."""
    while True:
        yield journal.gang(2)
        yield journal.gang(3)
        yield journal.independent(2)
        yield journal.gang(4)


@dataclass(slots=True)
class Submit:
    """One submit: its key stays the same however often it is sent. `losses`: answers that never came."""

    key: str
    body: Body
    group_id: str | None = None
    losses: int = 0


class Stream:
    """Submits groups, one after the other, from a thread of its own until the block is left, then until all
    are answered."""

    def __init__(self, address: Address, bodies: Iterator[Body], *, pause_seconds: float = 0.2) -> None:
        self.submits: list[Submit] = []
        self._address = address
        self._bodies = bodies
        self._pause_seconds = pause_seconds
        self._is_over = threading.Event()
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self._thread = threading.Thread(target=self._run, name="stream")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self.go_on()
        self._thread.join()

    def rest(self) -> None:
        """Submit nothing until `go_on`."""
        self._may_go_on.clear()

    def go_on(self) -> None:
        self._may_go_on.set()

    def _run(self) -> None:
        with Client(self._address) as client:
            for body in self._bodies:
                if self._is_over.is_set():
                    return
                self.submits.append(Submit(str(uuid.uuid4()), body))
                self._send(client, self.submits[-1])
                self._is_over.wait(self._pause_seconds)
                self._may_go_on.wait()

    def _send(self, client: Client, submit: Submit) -> None:
        for _ in range(100):
            try:
                submit.group_id = client.submit(submit.body, key=submit.key).id
                return
            except ClientError:
                submit.losses += 1
                self._is_over.wait(self._pause_seconds)
        raise AssertionError(f"not accepted after {submit.losses} tries")
