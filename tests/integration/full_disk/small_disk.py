"""A PostgreSQL on a disk of its own that is small: a memory file system that only its process sees.

Run by `unshare --mount`: the disk is gone with the process. It says the server's URL, starts the server
again at each line that it is told, and ends when its input does.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psycopg

from workers.embedded.child import ServerFailed
from workers.embedded.postgres import PostgresServer


def main(folder: Path, size: str) -> None:
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0711", "small", disk], check=True)
    server = start(folder)
    print(server.url, flush=True)
    for _ in sys.stdin:
        while not answers(server):
            # One that found no room while it recovered has given up.
            if not server.is_running:
                server = start(folder)
            time.sleep(0.05)
        print("runs", flush=True)
    server.stop()


def answers(server: PostgresServer) -> bool:
    try:
        with psycopg.connect(host=str(server.socket_folder), user="muster", dbname="postgres"):
            return True
    except psycopg.OperationalError:
        return False


def start(folder: Path) -> PostgresServer:
    try:
        return PostgresServer.start(folder / "disk" / "p", socket_dir=folder / "s", options={"fsync": "off"})
    except ServerFailed as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
