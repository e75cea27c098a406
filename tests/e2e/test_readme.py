"""Every shell block of the README, run in its order by a shell, in a copy of the checkout.

A block whose fence says `sh` is run; `sh terminal` is started in a terminal of its own and goes on; `text`
is for reading.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import servers
from tests.e2e.stacks import data_folder, environment

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PORT = "8420"
BLOCK_SECONDS = 110
READY = "Muster is up at"

#: What the output of a block that has the first text in it has to have in it.
EXPECTED = (
    ("make demo", r"All \d+ claims were checked and hold\."),
    ("muster nodes", r"node-1\s.*8 . H100-80GB"),
    ("muster why second", r"InsufficientGpus\s+6\s"),
    ("muster logs -f small", r"(?s)I am 0 on GPU \d.*train-6"),
    ("muster cancel train-6", r"train-6\s+(Evicting|Cancelled)"),
    ("tee third.json", r'"status":"Pending"'),
    ("/reasons", r'(?s)"code":"(InsufficientGpus|PendingEvaluation)".*"status":"Cancelled"'),
    ("muster down", r"Stopped Muster"),
)

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(400), pytest.mark.slow]


class Block(NamedTuple):
    fence: str
    text: str


BLOCKS = [
    Block(*found) for found in re.findall(r"^```([^\n]*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
]
SHELL = [block for block in BLOCKS if block.fence.startswith("sh")]


class Shell:
    """One shell that is told block after block. The first command that fails ends it."""

    def __init__(self, folder: Path, output: Path, environ: dict[str, str]) -> None:
        self.output = output
        with output.open("w") as file:
            self.process = subprocess.Popen(
                ["sh", "-eu"],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environ,
                text=True,
                start_new_session=True,
            )

    def tell(self, text: str) -> None:
        assert self.process.stdin is not None
        # Commands do not read what the shell has yet to be told.
        self.process.stdin.write(f"{{\n{text}}} </dev/null\n")
        self.process.stdin.flush()

    def run(self, text: str) -> str:
        """Run a block to its end; what it printed."""
        before = len(self.output.read_text())
        self.tell(f"{text}echo 'the block is done'\n")
        return self.wait_for("the block is done\n", before)

    def wait_for(self, text: str, since: int = 0) -> str:
        deadline = time.monotonic() + BLOCK_SECONDS
        while text not in (printed := self.output.read_text()[since:]):
            assert self.process.poll() is None, f"exit code {self.process.returncode} after:\n{printed}"
            assert time.monotonic() < deadline, f"not done in {BLOCK_SECONDS} s:\n{printed}"
            time.sleep(0.05)
        return printed

    def leave(self) -> int:
        """No more blocks come; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(BLOCK_SECONDS)

    def end(self) -> None:
        """End the shell and what runs in it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(BLOCK_SECONDS)


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout, set up: its .venv is the one of this run."""
    venv = Path(sys.prefix)
    if not (venv / "installed").exists():
        pytest.skip("this Python is not from `make setup`")
    copy = tmp_path / "muster"
    left_out = shutil.ignore_patterns(".git", ".venv", ".muster", ".*_cache", ".hypothesis", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=left_out)
    (copy / ".venv").symlink_to(venv)
    return copy


@pytest.fixture
def data() -> Iterator[Path]:
    with servers.server_folder() as folder, data_folder(folder) as data:
        yield data


def test_every_block_of_the_readme_runs(checkout: Path, data: Path, tmp_path: Path) -> None:
    environ = environment(HOME=str(tmp_path), MUSTER_DATA=str(data))
    port = str(find_free_port())
    terminal = Shell(checkout, tmp_path / "terminal", environ)
    shell = Shell(checkout, tmp_path / "shell", environ)
    try:
        for block in SHELL:
            text = block.text.replace(PORT, port).replace("muster up", f"muster up --port {port}")
            if "curl" in text and shutil.which("curl") is None:
                continue
            if block.fence == "sh terminal":
                terminal.tell(text)
                terminal.wait_for(READY)
                continue
            printed = shell.run(text)
            for known, expected in EXPECTED:
                if known in text:
                    assert re.search(expected, printed), printed
        assert shell.leave() == 0
        assert terminal.leave() == 0, terminal.output.read_text()
    finally:
        shell.end()
        terminal.end()


def test_each_block_says_what_it_is() -> None:
    assert {block.fence for block in BLOCKS} <= {"sh", "sh terminal", "text"}
    assert sum(block.fence == "sh terminal" for block in BLOCKS) == 1


def test_what_is_expected_is_looked_at() -> None:
    for known, _ in EXPECTED:
        assert any(known in block.text for block in SHELL if block.fence == "sh"), known


@pytest.mark.parametrize(
    "shown",
    [
        r"muster submit ",
        r"muster why ",
        r"muster cancel ",
        r"(?s)curl [^\n]*/v1/groups .*-d ",
        r"curl [^\n]*/reasons",
        r"curl [^\n]*-X DELETE ",
    ],
)
def test_submit_why_and_cancel_are_shown_both_ways(shown: str) -> None:
    assert any(re.search(shown, block.text) for block in SHELL)
