"""Every shell block of the README and of the tour of the API, run in order, in a copy of the checkout.

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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import servers
from tests.e2e.stacks import data_folder, environment

ROOT = Path(__file__).parents[2]
PORT = "8420"
BLOCK_SECONDS = 110
READY = "Muster is up at"

#: What the output of a block that has the first text in it has to have in it.
Expected = tuple[tuple[str, str], ...]
IN_README: Expected = (
    ("make demo", r"All \d+ claims were checked and hold\."),
    ("muster nodes", r"node-1\s.*8 . H100-80GB"),
    ("muster why second", r"InsufficientGpus\s+6\s"),
    ("muster logs -f small", r"(?s)I am 0 on GPU \d.*train-6"),
    ("muster cancel train-6", r"train-6\s+(Evicting|Cancelled)"),
    ("tee third.json", r'"status":"Pending"'),
    ("/reasons", r'(?s)"code":"(InsufficientGpus|PendingEvaluation)".*"status":"Cancelled"'),
    ("muster down", r"Stopped Muster"),
)

IN_TOUR: Expected = (
    ("/reasons", r'(?s)"status":"(Pending|Admitted|Starting|Running)".*"kind":"Submitted".*"member":5'),
    ("waiting=true", r'"name":"next"'),
    ("/hold", r'(?s)"is_held":true.*"is_held":false.*"status":"(Evicting|Cancelled)"'),
    ("/audit", r'(?s)"stop":"hold".*"is_cordoned":true.*"is_cordoned":false.*"is_clean":true'),
)

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(400), pytest.mark.slow]


class Block(NamedTuple):
    fence: str
    text: str


def blocks_of(page: str) -> list[Block]:
    text = (ROOT / page).read_text()
    found = re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(*block) for block in found]


README = blocks_of("README.md")
TOUR = blocks_of("docs/api.md")
#: What starts the stack, from the README.
START = [block for block in README if block.fence == "sh terminal"]


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
        assert self.process.stdin is not None
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(BLOCK_SECONDS)
        self.process.stdin.close()


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout, set up: its .venv is the one of this run."""
    venv = Path(sys.prefix)
    stamp = venv / "installed"
    if not stamp.exists():
        pytest.skip("this Python is not from `make setup`")
    # Else `make` in the copy would bring this very .venv up to date, and have it point to the copy.
    wanted = max((ROOT / name).stat().st_mtime for name in ("requirements/dev.txt", "pyproject.toml"))
    assert stamp.stat().st_mtime >= wanted, "run `make setup` first: its pins or pyproject.toml have changed"
    copy = tmp_path / "muster"
    left_out = shutil.ignore_patterns(".git", ".venv", ".muster", ".*_cache", ".hypothesis", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=left_out)
    (copy / ".venv").symlink_to(venv)
    return copy


@pytest.fixture
def data() -> Iterator[Path]:
    with servers.server_folder() as folder, data_folder(folder) as data:
        yield data


class Play:
    """Blocks that are run: those of a terminal of its own there, all others one after the other."""

    def __init__(self, checkout: Path, data: Path, output: Path) -> None:
        environ = environment(HOME=str(output), MUSTER_DATA=str(data))
        environ["PATH"] = f"{checkout / '.venv' / 'bin'}{os.pathsep}{environ['PATH']}"
        self._port = str(find_free_port())
        self.terminal = Shell(checkout, output / "terminal", environ)
        self.shell = Shell(checkout, output / "shell", environ)

    def run(self, blocks: Sequence[Block], expected: Expected) -> None:
        for block in blocks:
            if block.fence.startswith("sh") and not is_out_of_reach(block):
                self._run(block, expected)

    def _run(self, block: Block, expected: Expected) -> None:
        text = block.text.replace(PORT, self._port).replace("muster up", f"muster up --port {self._port}")
        if block.fence == "sh terminal":
            self.terminal.tell(text)
            self.terminal.wait_for(READY)
            return
        printed = self.shell.run(text)
        for known, pattern in expected:
            if known in block.text:
                assert re.search(pattern, printed), printed

    def end(self) -> None:
        self.shell.end()
        self.terminal.end()


def is_out_of_reach(block: Block) -> bool:
    return "curl" in block.text and shutil.which("curl") is None


@pytest.fixture
def play(checkout: Path, data: Path, tmp_path: Path) -> Iterator[Play]:
    made = Play(checkout, data, tmp_path)
    yield made
    made.end()


def test_every_block_of_the_readme_runs(play: Play) -> None:
    play.run(README, IN_README)
    assert play.shell.leave() == 0
    assert play.terminal.leave() == 0, play.terminal.output.read_text()


def test_every_block_of_the_tour_of_the_api_runs(play: Play) -> None:
    play.run([*START, *TOUR], IN_TOUR)
    assert play.shell.leave() == 0


def test_each_block_says_what_it_is() -> None:
    assert {block.fence for block in (*README, *TOUR)} <= {"sh", "sh terminal", "text"}
    assert len(START) == 1


@pytest.mark.parametrize(
    ("blocks", "expected"), [(README, IN_README), (TOUR, IN_TOUR)], ids=["readme", "tour"]
)
def test_what_is_expected_is_looked_at(blocks: list[Block], expected: Expected) -> None:
    for known, _ in expected:
        assert any(known in block.text for block in blocks if block.fence == "sh"), known


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
    assert any(re.search(shown, block.text) for block in README if block.fence == "sh")
