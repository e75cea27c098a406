"""What the tests of the embedded servers share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent


@dataclass(frozen=True)
class Owner:
    """A process that has started both servers in its folder."""

    process: subprocess.Popen[str]
    postgres_pid: int
    valkey_pid: int


StartOwner = Callable[..., Owner]


@pytest.fixture
def start_owner(server_folder: Path) -> Iterator[StartOwner]:
    """Starts an owner of both servers in `server_folder`, as another user or environment if asked."""
    with ExitStack() as started:

        def start(*, uid: int | None = None, environment: Mapping[str, str] | None = None) -> Owner:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.embedded.owner", server_folder],
                cwd=ROOT,
                env=environment,
                user=uid,
                group=uid,
                extra_groups=None if uid is None else [],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            started.enter_context(process)
            assert process.stdout is not None
            postgres_pid, valkey_pid = map(int, process.stdout.readline().split())
            return Owner(process, postgres_pid, valkey_pid)

        yield start
