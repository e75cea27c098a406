"""Two launchers on one machine: their units have the same numbers, and neither touches the other's."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.subjects import wait_until
from tests.integration.local_launcher.bench import Bench, is_gone
from workers.launchers.base import MemberState
from workers.launchers.local.processes import ProcessId, is_alive, send_signal

#: A member with a child that is its own session, so that only the mark leads to it.
WITH_CHILD = """
    note("member")
    if os.fork() == 0:
        os.setsid()
        note("child")
    time.sleep(600)
"""


@pytest.fixture
def neighbour(short_folder: Path) -> Iterator[Bench]:
    folder = short_folder / "neighbour"
    folder.mkdir()
    made = Bench(folder)
    try:
        yield made
    finally:
        made.end()


def processes(bench: Bench) -> list[ProcessId]:
    return [bench.pid_of("member"), bench.pid_of("child")]


def test_closing_ends_nobody_elses_members(bench: Bench, neighbour: Bench) -> None:
    key, same = bench.run(WITH_CHILD), neighbour.run(WITH_CHILD)
    assert key == same
    own, others = processes(bench), processes(neighbour)
    bench.close(key)
    assert all(is_gone(process) for process in own)
    assert all(is_alive(process) for process in others)
    assert [seen.state for seen in neighbour.launcher.observe()] == [MemberState.READY]


def test_what_a_killed_supervisor_left_is_told_from_a_neighbours(bench: Bench, neighbour: Bench) -> None:
    key, same = bench.run(WITH_CHILD), neighbour.run(WITH_CHILD)
    assert key == same
    own, others = processes(bench), processes(neighbour)
    send_signal(bench.record(key).record.supervisor, signal.SIGKILL)
    wait_until(lambda: all(is_gone(process) for process in own))
    wait_until(lambda: [seen.state for seen in bench.launcher.observe()] == [MemberState.LOST])
    assert all(is_alive(process) for process in others)
