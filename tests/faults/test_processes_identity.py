"""Who a recorded process is: others that have got its pid, and another boot of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.client import Client
from tests import servers
from tests.e2e.stacks import MUSTER, Up, data_folder, environment, wait_for, wait_gone, wait_status
from tests.faults import faults
from tests.faults.bystanders import bystanders, with_pid_of
from tests.faults.journals import Journal
from tests.faults.trial import assert_recovers, start
from tests.faults.verdict import SUCCEEDED, judge
from tests.faults.witness import Witness
from workers.embedded.identity import find_identity

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(180), pytest.mark.slow]


def test_who_has_got_the_pids_of_a_member_is_left_alone(tmp_path: Path) -> None:
    """While no dispatcher runs a member and its supervisor are killed, and others get their pids."""
    journal = Journal(tmp_path, label=uuid.uuid4().hex)
    with servers.server_folder() as folder, data_folder(folder) as data, bystanders(tmp_path):
        up = start(data)
        with up.client() as client:
            group = client.submit(journal.long_gang(3))
            wait_status(client, group.id, "Running")
        pids = _family(up, group.id, rank=1)
        assert up.stop() == 0
        _kill(pids)
        with with_pid_of(pids, tmp_path) as told:
            up = start(data)
            with up.client() as client, Witness(data, client.address) as witness:
                _assert_starts_again_in_place(client, group.id)
                assert_recovers(client)
                journal.open()
                judge(up, client, journal, {group.id: SUCCEEDED})
            assert witness.faults == []
            assert up.stop() == 0
            assert [note.read_text() for note in told] == ["", ""]


def test_after_another_boot_of_the_machine_everything_goes_on_where_it_was(tmp_path: Path) -> None:
    """Nothing that is recorded runs any more, whoever has the pids: the groups start again in place."""
    journal = Journal(tmp_path, label=uuid.uuid4().hex)
    with servers.server_folder() as folder, data_folder(folder) as data, bystanders(tmp_path):
        up = start(data)
        with up.client() as client:
            gang = client.submit(journal.long_gang(3))
            tasks = client.submit(journal.independent(4, seconds=0.5))
            wait_status(client, gang.id, "Running")
        pids = _family(up, gang.id, rank=0)
        faults.kill_everything(up)
        with with_pid_of(pids, tmp_path) as told, rebooted(data, tmp_path) as up:
            with up.client() as client, Witness(data, client.address) as witness:
                _assert_starts_again_in_place(client, gang.id)
                assert_recovers(client)
                journal.open()
                judge(up, client, journal, dict.fromkeys([gang.id, tasks.id], SUCCEEDED))
            assert witness.faults == []
            assert [note.read_text() for note in told] == ["", ""]


def _family(up: Up, group_id: str, *, rank: int) -> list[int]:
    """The supervisor of a member, and the member."""
    member = faults.member(up, group_id, rank=rank)
    return [faults.supervisor_of(member).pid, member.pid]


def _kill(pids: list[int]) -> None:
    """The supervisor first, which takes its member along."""
    for identity in [find_identity(pid) for pid in pids]:
        if identity is not None and find_identity(identity.pid) == identity:
            os.kill(identity.pid, signal.SIGKILL)
            wait_gone(identity)


def _assert_starts_again_in_place(client: Client, group_id: str) -> None:
    """The platform's fault: no restart of the owner's is used up."""

    def look() -> bool | None:
        group = client.get(group_id)
        return True if (group.status, group.generation) == ("Running", 2) else None

    wait_for(look, "it runs again")
    group = client.get(group_id)
    assert (group.attempt, group.restarts_used) == (1, 0)


@contextmanager
def rebooted(data: Path, folder: Path) -> Iterator[Up]:
    """A stack on `data` that sees another boot id: in a mount namespace of its own another file lies over
    the kernel's."""
    boot_id = folder / "boot_id"
    boot_id.write_text(f"{uuid.uuid4()}\n")
    place = "/proc/sys/kernel/random/boot_id"
    enter = ["unshare", "--mount", "--propagation", "private"]
    script = f'mount --bind {boot_id} {place} && exec "$@"'
    probe = [*enter, "sh", "-c", script, "sh", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("another boot id needs a mount namespace, and that root")
    up = Up(
        data,
        environ=environment(MUSTER_DATA=str(data), MUSTER_LEASE_SECONDS="3"),
        program=[*enter, "sh", "-c", script, "sh", *MUSTER],
    )
    try:
        yield up
    finally:
        assert up.stop() == 0
