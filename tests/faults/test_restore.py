"""T1: a stack that begins again from a dump that is older than what runs."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from service.client import ApiError, Client
from tests import servers
from tests.e2e.stacks import Up, data_folder, muster, wait_for, wait_status
from tests.faults.journals import Body, Journal
from tests.faults.members import find_marks, owner_of
from tests.faults.trial import assert_recovers, start
from tests.faults.verdict import SUCCEEDED, judge
from tests.faults.witness import Witness
from workers.launchers.local.processes import ProcessId, is_alive

pytestmark = [pytest.mark.xdist_group("restore"), pytest.mark.timeout(240), pytest.mark.slow]

#: What is tried at a place where something was closed is refused, and tried again soon.
SETTINGS = {"MUSTER_DISPATCH_BACKOFF_SECONDS": "1"}


def until(body: Body, gate: Path) -> Body:
    """The same, but it runs until there is this file."""
    command = body["command"]
    assert isinstance(command, list)
    return body | {"command": [*command[:-1], str(gate)]}


def members(data: Path) -> dict[int, set[ProcessId]]:
    """The members that live, by unit, without what they start now and then."""
    found: dict[int, set[ProcessId]] = {}
    for process, key in find_marks(owner_of(data)):
        if process.group == process.id.pid:
            found.setdefault(key.unit_id, set()).add(process.id)
    return found


def wait_ended(process: ProcessId) -> None:
    wait_for(lambda: None if is_alive(process) else True, f"the end of {process}")


def test_a_dump_that_is_older_than_what_runs(tmp_path: Path) -> None:
    """When it was made `kept` and `first` ran, `second` waited for their GPUs, `third` was in a queue that
    was stopped, and `known` had ended. When all is lost `first` and `third` have ended, `second` runs, and
    so does `unknown`, which was submitted after it, as was `forgotten`, which has ended."""
    journal = Journal(tmp_path, label=uuid.uuid4().hex)
    dump, gate = tmp_path / "muster.dump", tmp_path / "first"
    with servers.server_folder() as folder, data_folder(folder) as data:
        up = start(data, **SETTINGS)
        with up.client() as client:
            # 1. What the dump knows.
            known = client.submit(journal.gang(2, name="known")).id
            wait_status(client, known, "Succeeded")
            kept = client.submit(journal.long_gang(2, name="kept")).id
            first = client.submit(until(journal.long_gang(3, name="first"), gate)).id
            for group in (kept, first):
                wait_status(client, group, "Running")
            client.queues.create("stopped", {"stop": "hold"})
            third = client.submit(journal.gang(1, name="third") | {"queue": "stopped"}).id
            second = client.submit(journal.long_gang(4, name="second")).id
            assert client.get(second).status == "Pending"
            said = muster("backup", dump, "--data", data)
            assert (said.returncode, said.stdout) == (0, f"Wrote {dump}.\n")
            assert dump.stat().st_mode & 0o777 == 0o600
            before = members(data)
            # 2. What it does not.
            gate.touch()
            wait_status(client, first, "Succeeded")
            wait_status(client, second, "Running")
            client.queues.update("stopped", {"stop": "none"})
            wait_status(client, third, "Succeeded")
            unknown = client.submit(journal.long_gang(1, name="unknown")).id
            wait_status(client, unknown, "Running")
            forgotten = client.submit(journal.gang(1, name="forgotten", seconds=0)).id
            wait_status(client, forgotten, "Succeeded")
            late = members(data)
            assert muster("restore", dump, "--data", data).returncode == 6
        assert up.stop() == 0
        assert all(is_alive(member) for unit in late.values() for member in unit)

        # 3. All is lost but the dump, the keys, and what runs.
        said = muster("restore", dump, "--data", data)
        assert (said.returncode, said.stderr) == (0, "")
        assert all(is_alive(member) for unit in late.values() for member in unit)
        up = start(data, **SETTINGS)
        with up.client() as client, Witness(data, client.address) as witness:
            went_on = _judge_what_lives(data, client, before=before, late=late)
            assert_recovers(client)
            adopted = wait_status(client, kept, "Running")
            assert (adopted.attempt, adopted.generation) == (1, 1)
            for gone in (unknown, forgotten):
                with pytest.raises(ApiError, match="no such group"):
                    client.get(gone)
            wait_status(client, first, "Succeeded")
            again = wait_status(client, second, "Running")
            assert again.attempt == 2, "what was closed does not start again (X2)"
            assert client.get(third).status == "Pending"
            client.queues.update("stopped", {"stop": "none"})
            # A new group has a number that no group of the lost time had.
            new = client.submit(journal.gang(1, name="new")).id
            wait_status(client, new, "Succeeded")
            assert all(is_alive(member) for member in went_on)
            journal.open()
            ends = dict.fromkeys([known, kept, first, second, third, new], SUCCEEDED)
            judge(up, client, journal, ends)
        assert witness.faults == []
        assert all(witness.samples.values()), witness.samples
        assert up.stop() == 0


def _judge_what_lives(
    data: Path,
    client: Client,
    *,
    before: dict[int, set[ProcessId]],
    late: dict[int, set[ProcessId]],
) -> set[ProcessId]:
    """Who lived at the time of the dump and lives still, goes on; all others are ended. The former."""
    went_on: set[ProcessId] = set()
    for unit, processes in late.items():
        if unit in before:
            went_on |= processes
            continue
        for process in processes:
            wait_ended(process)
    assert went_on
    assert all(is_alive(member) for member in went_on)
    client.ready()
    return went_on


def test_a_stopped_stack_is_dumped_and_a_broken_dump_changes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path, label=uuid.uuid4().hex)
    dump, broken = tmp_path / "muster.dump", tmp_path / "broken.dump"
    with servers.server_folder() as folder, data_folder(folder) as data:
        nothing = muster("backup", dump, "--data", data)
        assert nothing.returncode == 6
        assert "`muster up` makes one" in nothing.stderr
        up = Up(data)
        with up.client() as client:
            group = client.submit(journal.gang(1)).id
            wait_status(client, group, "Succeeded")
        assert up.stop() == 0
        assert muster("backup", dump, "--data", data).returncode == 0
        broken.write_bytes(dump.read_bytes()[:2_000])
        refused = muster("restore", broken, "--data", data)
        assert refused.returncode == 6
        assert "pg_restore" in refused.stderr
        up = Up(data)
        with up.client() as client:
            assert client.get(group).status == "Succeeded"
        assert up.stop() == 0
