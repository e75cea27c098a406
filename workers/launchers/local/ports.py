"""The rendezvous port of a generation: chosen once, so that all its members are told the same."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Collection
from pathlib import Path

from workers.launchers.local import durable

# Below the ports that systems give to outgoing connections, one of which could take it meanwhile.
_PORTS = range(20000, 32000)
_ATTEMPTS = 1000


class NoFreePort(Exception):
    """Every port that was tried is taken."""


def choose_port(path: Path, taken: Collection[int]) -> int:
    """Read the port that `path` records, or record one that is free and not in `taken`."""
    if not (lines := durable.read_lines(path)):
        # Not synced: after a crash of the machine no member of that generation is left.
        durable.create_once(path, f"{_find_free(taken)}\n", is_durable=False)
        lines = durable.read_lines(path)
    return int(lines[0])


def _find_free(taken: Collection[int]) -> int:
    for _ in range(_ATTEMPTS):
        port = random.choice(_PORTS)
        if port not in taken and _is_free(port):
            return port
    raise NoFreePort(f"no port for the rendezvous is free between {_PORTS.start} and {_PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False
