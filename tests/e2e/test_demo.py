"""`make demo`: the summary holds, and nothing is left, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from examples.demo.arrivals import count_stuck, interleaved, is_stuck
from examples.demo.per_process import Process
from examples.demo.private_stack import processes_of
from examples.demo.process_by_process import Outcome, run
from examples.demo.screen import Frame
from examples.demo.submitted import GANGS, RANKS, STEPS, TASK_GROUP, TASKS
from tests.e2e.stacks import muster

ROOT = Path(__file__).parents[2]
FOLDER = re.compile(r"/tmp/muster-demo-\w+")
#: A minute is what a person may wait; a loaded machine gets more.
END_SECONDS = 110

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.slow]


class Demo:
    """One run of the demo without a terminal."""

    def __init__(self, output: Path) -> None:
        self.output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "examples.demo"],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )

    def text(self) -> str:
        return self.output.read_text()

    def wait_for(self, pattern: str) -> None:
        deadline = time.monotonic() + END_SECONDS
        while not re.search(pattern, self.text(), re.MULTILINE):
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.05)

    def folder(self) -> Path:
        """The private folder, as its servers name it. Another demo may run at the same time."""
        servers = psutil.Process(self.process.pid).children(recursive=True)
        named = {found for server in servers for found in FOLDER.findall(" ".join(server.cmdline()))}
        assert len(named) == 1, named
        return Path(named.pop())


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    started = Demo(tmp_path / "output")
    yield started
    if started.process.poll() is None:
        started.process.send_signal(signal.SIGTERM)
        started.process.wait(60)


@pytest.mark.timeout(150)
def test_every_claim_holds(demo: Demo) -> None:
    assert demo.process.wait(END_SECONDS) == 0, demo.text()
    text = demo.text()
    assert "All 13 claims were checked and hold." in text
    assert "FAILED" not in text
    # B waits with its position and its reason, in the table that a person sees.
    assert re.search(r"B +Pending +0 of 6 running, 0 GPUs, position 1, InsufficientGpus: needs 6", text)
    # A line for a change, not for a look.
    assert len(text.splitlines()) < 100


@pytest.mark.timeout(150)
def test_a_claim_that_does_not_hold_is_told(demo: Demo) -> None:
    demo.wait_for(r"A +Running +6 of 6")
    # Somebody else cancels B, so it never takes its steps.
    cancelled = muster("--data", demo.folder() / "data", "cancel", "B")
    assert cancelled.returncode == 0, cancelled.stderr
    assert demo.process.wait(END_SECONDS) == 1, demo.text()
    assert re.search(r"^\s+FAILED +", demo.text(), re.MULTILINE)
    assert re.search(r"\d of 13 claims FAILED\.", demo.text())


@pytest.mark.timeout(150)
def test_stopped_while_a_gang_runs_it_leaves_nothing(demo: Demo) -> None:
    demo.wait_for(r"A +Running +6 of 6")
    folder = demo.folder()
    assert processes_of(folder)
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(60) == 130, demo.text()
    assert not folder.exists()
    assert processes_of(folder) == []
    assert "Traceback" not in demo.text()


def watch(order: list[Process]) -> tuple[Outcome, list[Frame]]:
    frames: list[Frame] = []
    return run(order, frames.append, lambda: None), frames


def test_process_by_process_nobody_moves() -> None:
    outcome, frames = watch(interleaved())
    assert all(claim.is_true for claim in outcome.claims())
    held = [tuple(frame.holders.count(gang) for gang in GANGS) for frame in frames]
    assert held[-1] == (4, 4)
    # First three each, while tasks pass through the two GPUs that are left.
    assert (3, 3) in held
    assert max(frame.holders.count(TASK_GROUP) for frame in frames) == 2


def test_a_gang_that_comes_first_takes_its_steps() -> None:
    """The allocator is not made to fail: served one after the other, both gangs would train."""
    ranks = [Process(gang, rank) for gang in GANGS for rank in range(RANKS)]
    outcome, _ = watch([*ranks, *(Process(TASK_GROUP, rank) for rank in range(TASKS))])
    assert outcome.steps == {"A": STEPS, "B": STEPS}
    assert outcome.handed_out == 0
    assert not all(claim.is_true for claim in outcome.claims())


def test_the_order_of_arrival_rarely_helps() -> None:
    assert is_stuck(interleaved())
    assert 900 < count_stuck(1000, seed=2) < 1000
