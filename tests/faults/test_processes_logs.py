"""What members write, in a running stack: at full speed, without an end of a line, and onto a full disk."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import psutil
import pytest

from service.client import Client
from tests import servers
from tests.e2e.stacks import MUSTER, Up, data_folder, environment, wait_for, wait_status
from tests.faults import faults
from tests.faults.bystanders import bystanders
from tests.faults.journals import Journal
from tests.faults.trial import assert_recovers, load_on, start
from tests.faults.verdict import SUCCEEDED, judge
from tests.faults.witness import Witness

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(180), pytest.mark.slow]

LIMIT_BYTES = 1 << 20
#: Nobody who copies or reads a log may grow by more than this, however much is written.
MOST_GROWTH_BYTES = 48 << 20
FLOOD_SECONDS = 6.0

#: Lines of 12 bytes: the one at offset N says N / 12.
_FLOOD = "exec seq -f %011.0f 0 99999999999"
_LINE_BYTES = 12
_TEN_THOUSAND = "i=0; while [ $i -lt 10000 ]; do printf 'step %05d ' $i; i=$((i + 1)); done"
_STEP_BYTES = 11
_UNTIL_OPEN_OR = 'while [ ! -e "$1" ] && [ ! -e "{file}" ]; do sleep 0.05; done'


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with servers.server_folder() as folder, data_folder(folder) as data:
        stack = start(data, MUSTER_LOG_LIMIT_BYTES=str(LIMIT_BYTES))
        yield stack
        assert stack.stop() == 0


# ------------------------------------------------------------ much, and fast
def test_a_flood_is_bounded_and_hinders_nobody(up: Up, tmp_path: Path) -> None:
    with bystanders(tmp_path), load_on(up, tmp_path) as trial:
        group = trial.run(trial.journal.doing(_FLOOD, name="flood"), "Cancelled")
        growth = Growth(up, faults.member(up, group, rank=0).ppid())
        before = len(trial.stream.submits)
        with following(up, group) as follower:
            growth.watch("follower", follower.pid)
            ends_at, offset = time.monotonic() + FLOOD_SECONDS, 0
            while time.monotonic() < ends_at:
                offset = _read_numbers(trial.client, group, offset=offset)
                growth.look()
                # One that was just set aside may stand beside the one that it replaces.
                assert _log_bytes(up) <= LIMIT_BYTES * 3 // 2
                time.sleep(0.05)
            trial.client.cancel(group)
            wait_status(trial.client, group, "Cancelled")
            assert follower.wait(30) == 0
        assert offset > 8 * LIMIT_BYTES, "it was no flood"
        assert max(growth.most.values()) < MOST_GROWTH_BYTES, growth.most
        assert LIMIT_BYTES // 2 <= _log_bytes(up) <= LIMIT_BYTES
        # The others' groups come and go meanwhile.
        assert len(trial.stream.submits) > before + FLOOD_SECONDS
        trial.assert_unharmed()


def test_ten_thousand_lines_without_their_ends_reach_every_reader(up: Up, tmp_path: Path) -> None:
    whole = b"".join(b"step %05d " % number for number in range(10_000))
    with bystanders(tmp_path), load_on(up, tmp_path) as trial:
        work = f"{_TEN_THOUSAND}; {_UNTIL_OPEN_OR.format(file=tmp_path / 'read')}; exit 3"
        body = trial.journal.doing(work, name="one line") | {"recovery": {"max_restarts": 0}}
        group = trial.run(body, "Failed")
        written = tmp_path / "followed"
        with following(up, group, output=written) as follower:
            wait_for(lambda: True if written.stat().st_size == len(whole) else None, "it follows")
            (tmp_path / "read").touch()
            wait_status(trial.client, group, "Failed")
            assert follower.wait(30) == 0
        assert written.read_bytes() == whole
        assert b"".join(trial.client.members(group).logs(0)) == whole
        assert b"".join(trial.client.members(group).logs(0, tail=3)) == whole
        assert _ask_log(trial.client, group, offset=_STEP_BYTES, limit=_STEP_BYTES).content == b"step 00001 "
        # What people read as the reason is short.
        message = trial.client.get(group).message
        assert message is not None
        assert "step 09999" in message
        assert len(message) < 4000
        trial.assert_unharmed()


def test_a_line_that_never_ends_is_read_in_bounds(up: Up, tmp_path: Path) -> None:
    with bystanders(tmp_path), load_on(up, tmp_path) as trial:
        growth = Growth(up)
        work = f"head -c {32 * LIMIT_BYTES} /dev/zero | tr '\\0' x; exit 3"
        body = trial.journal.doing(work, name="endless") | {"recovery": {"max_restarts": 0}}
        group = trial.submit(body, "Failed")
        with following(up, group) as follower:
            growth.watch("follower", follower.pid)
            while follower.poll() is None:
                growth.look()
                time.sleep(0.05)
        wait_status(trial.client, group, "Failed")
        tail = b"".join(trial.client.members(group).logs(0, tail=10))
        assert 0 < len(tail) <= LIMIT_BYTES // 4
        answer = _ask_log(trial.client, group, offset=0)
        assert int(answer.headers["Muster-Log-Size"]) == 32 * LIMIT_BYTES
        assert len(answer.content) <= LIMIT_BYTES
        assert len(trial.client.get(group).message or "") < 4000
        assert max(growth.most.values()) < MOST_GROWTH_BYTES, growth.most
        trial.assert_unharmed()


# ------------------------------------------------------------ a disk that is full
def test_a_full_disk_for_logs_costs_output_and_is_told(tmp_path: Path) -> None:
    """The logs of the stack lie on it, too: nobody stops working because nobody can write a line."""
    with (
        servers.server_folder() as folder,
        small_disk(folder / "data" / "logs", mebibytes=4) as disk,
        data_folder(folder) as data,
        bystanders(tmp_path),
    ):
        up = start(data)
        with load_on(up, tmp_path) as trial:
            talk = 'while [ ! -e "$1" ]; do printf "%05000d" 7; sleep 0.05; done; printf "\\nmy last words"'
            group = trial.run(trial.journal.doing(talk, name="talks", members=2))
            parts = {part: up.identity(part) for part in faults.SERVICES}
            before = len(trial.stream.submits)
            with filled(disk):
                # Long enough for each of the stack's own logs to need more room, too.
                wait_for(lambda: True if len(trial.stream.submits) > before + 30 else None, "more load")
                trial.assert_recovers()
                quiet = trial.submit(trial.journal.doing("echo lost; sleep 0.5", name="unheard"))
                wait_status(trial.client, quiet, "Succeeded")
                assert all(submit.losses == 0 for submit in trial.stream.submits[before:-1])
                assert {part: up.identity(part) for part in faults.SERVICES} == parts
                # Who is killed now finds no room either, and works.
                faults.kill(up, "worker", "dispatcher")
                trial.assert_recovers()
            trial.assert_unharmed()
        with up.client() as client:
            for each in (group, quiet):
                for member in client.members(each).list():
                    assert member.exit_code == 0
                    assert "output lost: No space left on device" in (member.message or "")
            kept = b"".join(client.members(group).logs(1))
            assert kept.endswith(b"\nmy last words")
            assert b" bytes of output lost: No space left on device]\n" in kept
        assert up.stop() == 0


def test_a_full_disk_for_records_starts_nothing_and_loses_no_end(tmp_path: Path) -> None:
    """Who cannot be recorded is not started (X3); what ended is told, at the latest when there is room."""
    journal = Journal(tmp_path, label=uuid.uuid4().hex)
    with (
        servers.server_folder() as folder,
        small_disk(folder / "data" / "launcher", mebibytes=1) as disk,
        data_folder(folder) as data,
        bystanders(tmp_path),
    ):
        up = start(data)
        with up.client() as client, Witness(data, client.address) as witness:
            running = client.submit(journal.long_gang(2))
            wait_status(client, running.id, "Running")
            with filled(disk):
                waiting = client.submit(journal.gang(2, name="unrecorded"))
                wait_for(lambda: _is_unreachable(client), "the launcher says that it cannot work")
                journal.open()
                time.sleep(1)
                assert client.get(waiting.id).status in {"Pending", "Admitted"}
                # Nobody of it has begun: only the two that had run before.
                assert sum(journal.notes().begun.values()) == 2
            wait_status(client, running.id, "Succeeded")
            wait_status(client, waiting.id, "Succeeded")
            assert_recovers(client)
            judge(up, client, journal, dict.fromkeys([running.id, waiting.id], SUCCEEDED))
        assert witness.faults == []
        assert up.stop() == 0


def _is_unreachable(client: Client) -> bool | None:
    [node] = client.nodes.list()
    return None if node.is_reachable else True


# ------------------------------------------------------------ reading
def _ask_log(client: Client, group: str, **query: int) -> httpx2.Response:
    url, key = client.address.url, client.address.key
    answer = httpx2.get(
        f"{url}/v1/groups/{group}/members/0/logs",
        params=query,
        headers={"Authorization": f"Bearer {key}"},
        timeout=10,
    )
    assert answer.status_code == 200, answer.text
    return answer


def _read_numbers(client: Client, group: str, *, offset: int) -> int:
    """Read on from `offset`: what comes is what stands there, though most was dropped meanwhile."""
    answer = _ask_log(client, group, offset=offset)
    after = int(answer.headers["Muster-Log-Next-Offset"])
    start = after - len(answer.content)
    assert start >= offset
    skipped = -start % _LINE_BYTES
    lines = answer.content[skipped:].split(b"\n")[:-1]
    first = (start + skipped) // _LINE_BYTES
    assert lines == [b"%011d" % number for number in range(first, first + len(lines))]
    return after


@contextmanager
def following(up: Up, group: str, *, output: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """`muster logs -f`."""
    with (output or Path(os.devnull)).open("wb") as target:
        process = subprocess.Popen(
            [*MUSTER, "--data", str(up.data), "logs", "-f", group, "--member", "0"],
            stdout=target,
            env=environment(),
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _log_bytes(up: Up) -> int:
    """The largest log of a member, on disk."""
    sizes: dict[Path, int] = {}
    for path in (up.data / "logs").glob("*/*/*/0.log*"):
        with suppress(FileNotFoundError):  # dropped between the two looks
            sizes[path.parent] = sizes.get(path.parent, 0) + path.stat().st_size
    return max(sizes.values())


class Growth:
    """How much memory the API, the dispatcher and others took at most beyond what they had at first."""

    def __init__(self, up: Up, *pids: int) -> None:
        self._first: dict[str, tuple[psutil.Process, int]] = {}
        self.most: dict[str, int] = {}
        for part in ("api", "dispatcher"):
            self.watch(part, up.identity(part).pid)
        for pid in pids:
            self.watch(f"supervisor {pid}", pid)

    def watch(self, name: str, pid: int) -> None:
        process = psutil.Process(pid)
        self._first[name] = (process, process.memory_info().rss)
        self.most[name] = 0

    def look(self) -> None:
        for name, (process, first) in self._first.items():
            with suppress(psutil.NoSuchProcess):
                self.most[name] = max(self.most[name], process.memory_info().rss - first)


# ------------------------------------------------------------ disks
@contextmanager
def small_disk(folder: Path, *, mebibytes: int) -> Iterator[Path]:
    """A file system of its own at `folder`, which is below a data folder that is yet to be used."""
    if os.geteuid() != 0:
        pytest.skip("a file system of a chosen size needs root")
    for each in (folder.parent, folder):
        each.mkdir(mode=0o711)
    options = f"size={mebibytes}m,mode=0700"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Not a byte is free in the block."""
    filler = disk / "filler"
    try:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        with suppress(OSError), filler.open("ab", buffering=0) as file:
            while True:
                file.write(b"x")
        yield
    finally:
        filler.unlink()
