"""A local launcher with its folder, and commands whose processes a test can find by their pid files."""

from __future__ import annotations

import signal
import sys
import textwrap
from pathlib import Path

from tests.contract.subjects import LIVE, close_surely, member, wait_until
from workers.launchers.base import GenerationKey, LaunchResult, MemberKey, MemberLaunch
from workers.launchers.local.launcher import LocalLauncher
from workers.launchers.local.layout import Layout
from workers.launchers.local.nodes import parse_nodes
from workers.launchers.local.processes import ProcessId, find_process, is_alive, send_signal
from workers.launchers.local.records import MemberFile, read_member
from workers.launchers.local.warm import SILENCE_SECONDS

NODES = "1x8xH100-80GB"


class Bench:
    """`data` is the launcher's folder, `folder` one for the members' own files."""

    def __init__(self, folder: Path, *, log_limit_bytes: int = 1 << 20) -> None:
        self.data = folder / "data"
        self.folder = folder / "members"
        self.folder.mkdir(exist_ok=True)
        self.layout = Layout(self.data / "launcher")
        self._log_limit_bytes = log_limit_bytes
        self._started: list[ProcessId] = []
        self.launcher = self.open()

    def open(
        self, *, environment: dict[str, str] | None = None, silence_seconds: float = SILENCE_SECONDS
    ) -> LocalLauncher:
        """Another launcher on the same folder."""
        nodes = parse_nodes(NODES)
        return LocalLauncher(
            self.data,
            lambda: nodes,
            log_limit_bytes=self._log_limit_bytes,
            workdir=self.folder,
            environment=environment,
            silence_seconds=silence_seconds,
        )

    def reopen(self, *, environment: dict[str, str] | None = None) -> None:
        """Replace the launcher, as a restarted dispatcher does."""
        self.launcher.stop()
        self.launcher = self.open(environment=environment)

    def start(self, *members: MemberLaunch) -> list[LaunchResult]:
        return list(self.launcher.launch(members))

    def run(self, text: str, *, unit_id: int = 1 << 20, **others: int) -> MemberKey:
        """Start one member that runs a Python program."""
        launch = member(python(text), unit_id=unit_id, **others)  # type: ignore[arg-type]
        [result] = self.start(launch)
        assert result.outcome == "Started", result
        return launch.key

    def pid_of(self, name: str) -> ProcessId:
        """The process that wrote its pid to the file `name`. Ended at the end of the test, too."""
        path = self.folder / name
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
        found = find_process(int(path.read_text()))
        assert found is not None, f"{name} has ended already"
        self._started.append(found.id)
        return found.id

    def wait_for_file(self, name: str) -> str:
        """What a member wrote to a file, once it did."""
        path = self.folder / name
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
        return path.read_text()

    def record(self, key: MemberKey) -> MemberFile:
        """What is on disk of a member."""
        file = read_member(self.layout, key)
        assert file is not None, f"{key} has no record"
        return file

    def close(self, key: MemberKey) -> None:
        close_surely(self.launcher, key.of)

    def end(self) -> None:
        """End what the test started, through the launcher and behind its back."""
        live: set[GenerationKey] = {seen.key.of for seen in self.launcher.observe() if seen.state in LIVE}
        for key in live:
            close_surely(self.launcher, key)
        for process in self._started:
            send_signal(process, signal.SIGKILL)
        self.launcher.stop()


def python(text: str) -> tuple[str, ...]:
    """A command that runs a Python program. In it `note(name)` writes the pid of who calls it."""
    prelude = """
        import os, signal, subprocess, sys, time
        from pathlib import Path
        def note(name):
            Path(name + ".new").write_text(f"{os.getpid()}\\n")
            Path(name + ".new").rename(name)
    """
    return (sys.executable, "-S", "-c", textwrap.dedent(prelude) + textwrap.dedent(text))


def is_gone(process: ProcessId) -> bool:
    return not is_alive(process)
