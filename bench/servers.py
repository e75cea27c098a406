"""The stores of a benchmark: a folder that is gone afterwards, PostgreSQL with fsync on, Valkey, and
the whole stack."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, text

from workers.embedded.postgres import PostgresServer
from workers.embedded.valkey import ValkeyServer
from workers.stack import Stack, StackOptions
from workers.stack.members import end_members


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder that PostgreSQL's user can enter, with a name short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def both_stores(folder: Path) -> Iterator[tuple[str, str]]:
    """URLs of a PostgreSQL and a Valkey as `muster up` starts them."""
    with (
        PostgresServer.start(folder / "postgres", socket_dir=folder / "sockets") as postgres,
        ValkeyServer.start(folder / "valkey", socket_dir=folder / "sockets") as valkey,
    ):
        yield postgres.url, valkey.url


@contextmanager
def whole_stack(
    folder: Path, *, nodes: str, launcher: str, more: Mapping[str, str] | None = None, levels: str = "host"
) -> Iterator[Stack]:
    """Every process as shipped, ready; nothing of it lives afterwards. `more`: further variables."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    environ |= more or {}
    data = folder / "data"
    options = StackOptions(
        data=data, port=0, nodes=nodes, launcher=launcher, pool="bench", levels=levels, environ=environ
    )
    stack = Stack(options)
    try:
        with stack:
            stack.wait_ready()
            yield stack
    finally:
        if launcher == "local":
            end_members(data, grace_seconds=0.5)


def require_fsync(engine: Engine) -> None:
    """Figures without fsync would be of another program."""
    with engine.connect() as conn:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            value = conn.execute(text(f"SHOW {setting}")).scalar_one()
            if value != "on":
                raise RuntimeError(f"PostgreSQL runs with {setting} {value}")
