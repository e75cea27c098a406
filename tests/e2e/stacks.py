"""`muster up` as a real process, for tests: started, asked, killed in parts, and always ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil

from service.client import Client, ClientError
from service.client.address import Address
from service.client.groups import Group
from service.domain.status import ENDED
from workers.embedded.identity import ProcessIdentity, find_identity, is_alive
from workers.stack import StackOptions
from workers.stack.down import stop_stack

T = TypeVar("T")

NODES = "1x8xH100-80GB"
READY_SECONDS = 90.0
STEP_SECONDS = 60.0
MUSTER = (sys.executable, "-P", "-m", "service.cli")
_UP = re.compile(r"Muster is up at (http://127\.0\.0\.1:\d+)")


def environment(**more: str) -> dict[str, str]:
    """The caller's, without what it says of some other Muster."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")} | more


def muster(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*MUSTER, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=READY_SECONDS,
        check=False,
        env=environment(**environ),
    )


def wait_for(look: Callable[[], T | None], what: str, *, seconds: float = STEP_SECONDS) -> T:
    """Look again and again until there is something."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < seconds:
        if (found := look()) is not None:
            return found
        # The longer it takes, the less often.
        time.sleep(min(0.1, 0.01 + waited / 10))
    raise AssertionError(f"not within {seconds:g} s: {what}")


def wait_gone(identity: ProcessIdentity) -> None:
    wait_for(lambda: None if is_alive(identity) else True, f"the end of {identity.pid}")


class Up:
    """One `muster up`."""

    def __init__(
        self,
        data: Path,
        *,
        environ: Mapping[str, str] | None = None,
        user: int | None = None,
        nodes: str = NODES,
        launcher: str = "local",
        program: Sequence[str | Path] = MUSTER,
    ) -> None:
        """On `data`; with an `environ` that leads to `data` by itself, as `user`, with these `nodes` of this
        `launcher`, by another `muster`."""
        self.data = data
        self.output = data.parent / f"{data.name}.out"
        named = [] if environ else ["--data", str(data)]
        named += ["--nodes", nodes, "--launcher", launcher]
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [*program, "up", *named, "--port", "0"],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=dict(environ or environment()),
                start_new_session=True,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        try:
            self.url = wait_for(self._find_url, "`muster up` is ready", seconds=READY_SECONDS)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def _find_url(self) -> str | None:
        text = self.output.read_text()
        assert self.process.poll() is None, f"`muster up` ended with {self.process.returncode}:\n{text}"
        found = _UP.search(text)
        return found[1] if found else None

    def client(self) -> Client:
        return Client(Address(self.url, (self.data / "admin.key").read_text().strip()))

    def identity(self, part: str) -> ProcessIdentity:
        """Who runs as `part` of the stack now."""
        folder = self.data / part if part in {"postgres", "valkey"} else self.data / "run" / part
        fields = json.loads((folder / "server.json").read_text())
        del fields["stop_signal"]
        return ProcessIdentity(**fields)

    def kill(self, part: str) -> ProcessIdentity:
        """SIGKILL a part, and wait until it is there again as another process."""
        killed = self.identity(part)
        os.kill(killed.pid, signal.SIGKILL)
        wait_for(lambda: self._again(part, killed), f"{part} is started again")
        return killed

    def _again(self, part: str, killed: ProcessIdentity) -> ProcessIdentity | None:
        present = self.identity(part)
        return present if present != killed and is_alive(present) else None

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(READY_SECONDS)


@contextmanager
def data_folder(folder: Path) -> Iterator[Path]:
    """A data folder of which nothing runs any more afterwards, however the test ends."""
    data = folder / "data"
    try:
        yield data
    finally:
        stop_stack(StackOptions(data=data), member_grace_seconds=0.5)


def wait_status(client: Client, group_id: str, *statuses: str) -> Group:
    """Wait until the group is in one of `statuses`; it must not end otherwise."""

    def look() -> Group | None:
        try:
            group = client.get(group_id)
        except ClientError:
            return None  # a part of the stack is away
        assert group.status in statuses or group.status not in ENDED, (group.status, group.message)
        return group if group.status in statuses else None

    return wait_for(look, f"the group is {' or '.join(statuses)}")


def assert_clean(client: Client) -> None:
    """The audit says, after at most a few moments, that books, ledger and processes agree."""

    def look() -> bool | None:
        try:
            audit = client.audit()
        except ClientError:
            return None
        return True if audit.is_clean and not audit.releasing else None

    wait_for(look, "a clean audit")


class Gate:
    """A group whose members note who they are, and end when they are let go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def group(self, members: int = 2, *, name: str = "gated") -> dict[str, object]:
        script = 'echo $$ > "$0/pid.$RANK"; while [ ! -e "$0/go" ]; do sleep 0.05; done'
        return {
            "name": name,
            "members": members,
            "gpus": 1,
            "command": ["sh", "-c", f'echo "member $RANK started"; {script}', str(self.folder)],
            "recovery": {"backoff": "1s"},
        }

    def open(self) -> None:
        (self.folder / "go").touch()

    def members(self, count: int = 2) -> list[ProcessIdentity]:
        """The processes of the members, once all have noted who they are."""

        def look() -> list[ProcessIdentity] | None:
            notes = [self.folder / f"pid.{rank}" for rank in range(count)]
            texts = [note.read_text().strip() if note.exists() else "" for note in notes]
            found = [find_identity(int(text)) for text in texts if text]
            known = [identity for identity in found if identity is not None]
            return known if len(known) == count else None

        return wait_for(look, "all members run")

    def forget(self) -> None:
        """Drop the notes of members that have ended."""
        for note in self.folder.glob("pid.*"):
            note.unlink()


def processes_naming(folder: str) -> list[str]:
    """Processes of this machine that have `folder` in their command or environment, but not this one."""
    found = []
    for process in psutil.process_iter():
        try:
            told = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue  # ended meanwhile
        if process.pid != os.getpid() and any(folder in text for text in told):
            found.append(f"{process.pid} {' '.join(told[:6])}")
    return found
