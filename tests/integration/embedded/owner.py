"""An owner of servers that tests kill: starts both below a folder, says their pids, and waits.

usage: python -m tests.integration.embedded.owner FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from workers.embedded.postgres import PostgresServer
from workers.embedded.valkey import ValkeyServer


def main(folder: Path) -> None:
    """Start both servers, print their pids on one line, stop them at the end of standard input."""
    sockets = folder / "sockets"
    with (
        PostgresServer.start(folder / "postgres", socket_dir=sockets) as postgres,
        ValkeyServer.start(folder / "valkey", socket_dir=sockets) as valkey,
    ):
        print(postgres.pid, valkey.pid, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
