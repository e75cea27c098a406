"""What a supervisor is told: sent through a socket, never by arguments or files, since it holds secrets."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from workers.launchers.base import MemberKey, Outcome
from workers.launchers.local.layout import parse_mark

_LENGTH_BYTES = 8
_LONGEST_MESSAGE = 1000  # so that a report is written at once, however many write to one pipe


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """One member to start. `env` is its whole environment, secrets included; `hidden` are values that
    its log must not show."""

    key: MemberKey
    node: str
    devices: tuple[int, ...]
    master_port: int
    command: tuple[str, ...]
    workdir: str
    env: dict[str, str] = field(repr=False)
    hidden: tuple[str, ...] = field(repr=False)
    log: str
    log_limit_bytes: int


@dataclass(frozen=True, slots=True)
class Report:
    """How a start went. `outcome` None: the member has a record already, which says the rest."""

    key: MemberKey
    outcome: Outcome | None
    message: str | None = None


def send_orders(control: socket.socket, orders: Sequence[StartOrder], *, reports: int) -> None:
    """Send orders and the descriptor of the pipe to which their reports go."""
    body = json.dumps([asdict(order) for order in orders]).encode()
    socket.send_fds(control, [len(body).to_bytes(_LENGTH_BYTES)], [reports])
    control.sendall(body)


def receive_orders(control: socket.socket) -> tuple[list[StartOrder], int] | None:
    """Wait for the next orders; None when the sender is gone."""
    header, descriptors, _, _ = socket.recv_fds(control, _LENGTH_BYTES, 1)
    body = _receive(control, int.from_bytes(header)) if len(header) == _LENGTH_BYTES else None
    if body is None:
        return None
    os.set_inheritable(descriptors[0], False)  # else members would get it, and it would never be closed
    return [_order_from(fields) for fields in json.loads(body)], descriptors[0]


def write_report(reports: int, report: Report) -> None:
    """Write one report; nobody may be left to read it."""
    fields = (str(report.key), report.outcome, (report.message or "")[:_LONGEST_MESSAGE])
    try:
        os.write(reports, f"{json.dumps(fields)}\n".encode())
    except BrokenPipeError:
        return


def parse_reports(lines: bytes) -> Iterator[Report]:
    """Read whole lines of reports."""
    for line in lines.splitlines():
        mark, outcome, message = json.loads(line)
        key = parse_mark(mark)
        assert key is not None
        yield Report(key, Outcome(outcome) if outcome else None, message or None)


def _receive(control: socket.socket, length: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < length:
        part = control.recv(min(length - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _order_from(fields: dict[str, Any]) -> StartOrder:
    lists = {name: tuple(fields[name]) for name in ("devices", "command", "hidden")}
    return StartOrder(**fields | lists | {"key": MemberKey(*fields["key"])})
