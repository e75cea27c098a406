"""Faults done for real to a running stack while groups are submitted, run and end.

Each test ends as all do: no group is lost or doubled, none ever held a part of what it needs, books
and ledger and processes agree, and everything goes on by itself.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from service.client import Client
from service.client.groups import Group
from tests import servers
from tests.e2e.stacks import Up, data_folder, wait_for, wait_status
from tests.faults import faults
from tests.faults.asker import Asker
from tests.faults.journals import Journal
from tests.faults.trial import LEASE_SECONDS, Trial, assert_recovers, load_on, start
from tests.faults.verdict import SUCCEEDED, judge
from tests.faults.witness import Witness

# One stack after the other: each takes the processors for itself while it starts.
pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(180), pytest.mark.slow]

OUTAGE_SECONDS = 5.0
#: No process of the stack may take more of a processor than this while a store is away.
MOST_SHARE = 0.35


# ------------------------------------------------------------ processes are killed
@pytest.mark.parametrize("part", faults.SERVICES)
def test_a_killed_process_comes_back(up: Up, tmp_path: Path, part: str) -> None:
    with load_on(up, tmp_path) as trial:
        faults.kill(up, part)
        trial.assert_recovers()
        trial.assert_unharmed()


def test_killed_stores_come_back(up: Up, tmp_path: Path) -> None:
    with load_on(up, tmp_path) as trial:
        for parts in (["postgres"], ["valkey"], ["postgres", "valkey"]):
            faults.kill(up, *parts)
            trial.assert_recovers()
            time.sleep(0.5)
        trial.assert_unharmed()


def test_an_emptied_redis_is_filled_again(up: Up, tmp_path: Path) -> None:
    with load_on(up, tmp_path) as trial:
        for _ in range(3):
            faults.empty_redis(up)
            time.sleep(0.3)
        trial.assert_recovers()
        trial.assert_unharmed()


@pytest.mark.parametrize("part", ["postgres", "valkey"])
def test_a_frozen_store_is_waited_for(up: Up, tmp_path: Path, part: str) -> None:
    """It closes no connection and refuses nothing; still everybody is told in time."""
    with load_on(up, tmp_path) as trial:
        spending = faults.Spending(up)
        with faults.frozen(up, part):
            began = time.monotonic()
            asker = Asker(trial.client.address)
            assert faults.KIND[part] in asker.refused("GET", "/readyz")
            asker.ok("GET", "/healthz")
            if part == "valkey":
                assert asker.ok("GET", f"/v1/groups/{trial.across}")["status"] == "Running"
            _sit_out(began)
            shares = spending.shares()
        assert max(shares.values()) < MOST_SHARE, shares
        trial.assert_recovers()
        trial.assert_unharmed()


def _sit_out(began: float) -> None:
    time.sleep(max(0.0, OUTAGE_SECONDS - (time.monotonic() - began)))


# ------------------------------------------------------------ what a frozen one may do
@pytest.mark.parametrize("part", ["worker", "dispatcher"])
def test_who_was_frozen_beyond_its_lease_is_replaced_and_harmless(up: Up, tmp_path: Path, part: str) -> None:
    with load_on(up, tmp_path) as trial, faults.second(up, part):
        with faults.frozen(up, part):
            before = len(trial.stream.submits)
            time.sleep(LEASE_SECONDS + 1)
            # The other one does the work.
            after = trial.client.submit(trial.journal.gang(1, name="meanwhile"))
            trial.expect(after.id)
            wait_status(trial.client, after.id, "Succeeded")
            assert len(trial.stream.submits) > before
        time.sleep(1)
        trial.assert_recovers()
        trial.assert_unharmed()


# ------------------------------------------------------------ members and their keepers
def test_a_killed_spawner_is_replaced(up: Up, tmp_path: Path) -> None:
    with load_on(up, tmp_path) as trial:
        for _ in range(3):
            faults.spawner(up).kill()
            time.sleep(0.5)
        trial.assert_unharmed()


@pytest.mark.parametrize("who", ["member", "supervisor"])
def test_a_gang_that_loses_a_member_starts_again_whole(up: Up, tmp_path: Path, who: str) -> None:
    """What ends with 128 + 9 failed; of whom nobody saw the end was lost."""
    with load_on(up, tmp_path) as trial:
        member = faults.member(up, trial.across, rank=1)
        (member if who == "member" else faults.supervisor_of(member)).kill()
        group = wait_for(lambda: _next_generation(trial), "the gang runs again")
        assert (group.attempt, group.restarts_used) == (1, 1 if who == "member" else 0)


def _next_generation(trial: Trial) -> Group | None:
    group = trial.client.get(trial.across)
    return group if (group.status, group.generation) == ("Running", 2) else None


# ------------------------------------------------------------ what clients are told
def test_what_the_api_answers_without_redis(up: Up, tmp_path: Path) -> None:
    with load_on(up, tmp_path) as trial:
        spending = faults.Spending(up)
        with faults.gone(up, "valkey"):
            began = time.monotonic()
            _assert_answers_without_redis(trial)
            _sit_out(began)
            shares = spending.shares()
        assert max(shares.values()) < MOST_SHARE, shares
        trial.assert_recovers()
        trial.assert_unharmed()


def _assert_answers_without_redis(trial: Trial) -> None:
    asker = Asker(trial.client.address)
    group = asker.ok("POST", "/v1/groups", trial.journal.gang(2, name="without Redis"), status=201)
    other = asker.ok("POST", "/v1/groups", trial.journal.gang(2) | {"labels": {}}, status=201)
    assert (group["status"], group["position"]) == ("Pending", None)
    trial.expect(group["id"])
    path = f"/v1/groups/{group['id']}"
    assert asker.ok("GET", path)["position"] is None
    listed = asker.ok("GET", "/v1/groups")["groups"]
    assert {group["id"], other["id"]} <= {each["id"] for each in listed}
    assert asker.ok("DELETE", f"/v1/groups/{other['id']}", status=202)["status"] == "Cancelled"
    for refused in (f"{path}/position", f"{path}/reasons", "/v1/inventory", "/v1/inventory/audit", "/readyz"):
        assert "Redis" in asker.refused("GET", refused), refused
    asker.ok("GET", "/healthz")
    for allowed in (f"{path}/events", f"{path}/members", "/v1/queues", "/v1/nodes", "/v1/keys"):
        asker.ok("GET", allowed)


def test_what_the_api_answers_without_postgresql(up: Up, tmp_path: Path) -> None:
    with load_on(up, tmp_path) as trial:
        spending = faults.Spending(up)
        with faults.gone(up, "postgres"):
            began = time.monotonic()
            asker = Asker(trial.client.address)
            path = f"/v1/groups/{trial.across}"
            reads = (
                "/v1/groups",
                path,
                f"{path}/position",
                f"{path}/reasons",
                f"{path}/members",
                "/v1/queues",
            )
            for refused in (*reads, "/v1/nodes", "/v1/inventory", "/v1/inventory/audit", "/readyz"):
                assert "PostgreSQL" in asker.refused("GET", refused), refused
            assert "PostgreSQL" in asker.refused("POST", "/v1/groups", trial.journal.gang(2))
            assert "PostgreSQL" in asker.refused("DELETE", path)
            asker.ok("GET", "/healthz")
            _sit_out(began)
            shares = spending.shares()
        assert max(shares.values()) < MOST_SHARE, shares
        trial.assert_recovers()
        trial.assert_unharmed()


def test_a_submit_whose_answer_was_lost_is_there_once(up: Up, tmp_path: Path) -> None:
    """The connection is closed as soon as the request is written; the retry finds what it made."""
    with load_on(up, tmp_path) as trial:
        asker = Asker(trial.client.address)
        for number in range(5):
            body, key = trial.journal.gang(2, name=f"unheard {number}"), str(uuid.uuid4())
            asker.send_and_hang_up(body, key=key)
            if number == 3:
                faults.kill(up, "api")
                trial.assert_recovers()
            trial.submit(body, key=key)


# ------------------------------------------------------------ everything at once
def test_a_machine_that_lost_every_process_goes_on_where_it_was(tmp_path: Path) -> None:
    """The stack, its stores, all supervisors and all members are killed; a new stack starts."""
    journal = Journal(tmp_path, label=uuid.uuid4().hex)
    with servers.server_folder() as folder, data_folder(folder) as data:
        up = start(data)
        with up.client() as client:
            ids = [client.submit(journal.long_gang(3)).id]
            wait_status(client, ids[0], "Running")
            ids += [client.submit(journal.gang(3, seconds=1.0)).id for _ in range(3)]
            ids += [client.submit(journal.independent(4, seconds=1.0)).id]
        faults.kill_everything(up)
        up = start(data)
        with up.client() as client, Witness(data, client.address) as witness:
            group = wait_status(client, ids[0], "Running")
            assert (group.attempt, group.generation, group.restarts_used) == (1, 2, 0)
            assert_recovers(client)
            journal.open()
            judge(up, client, journal, dict.fromkeys(ids, SUCCEEDED))
        assert witness.faults == []
        assert up.stop() == 0


def test_a_stack_that_comes_back_late_and_with_fewer_gpus(tmp_path: Path) -> None:
    """What fell due meanwhile is done; what runs on GPUs that are not declared any more goes on."""
    journal = Journal(tmp_path, label=uuid.uuid4().hex)
    with servers.server_folder() as folder, data_folder(folder) as data:
        up = start(data)
        with up.client() as client:
            six = client.submit(journal.long_gang(6))
            limited = client.submit(
                {"name": "limited", "gpus": 1, "command": ["sleep", "600"], "time_limit": 2}
            )
            stubborn = client.submit(
                {
                    "name": "stubborn",
                    "gpus": 1,
                    "command": ["sh", "-c", 'trap "" TERM; while :; do sleep 0.1; done'],
                    "checkpoint": {"grace": "1s"},
                }
            )
            for group in (six, limited, stubborn):
                wait_status(client, group.id, "Running")
            client.cancel(stubborn.id)
        assert up.stop() == 0
        time.sleep(2)
        up = start(data, nodes="1x4xH100-80GB")
        with up.client() as client, Witness(data, client.address) as witness:
            assert wait_status(client, limited.id, "Failed").cause == "TimeLimit"
            assert wait_status(client, stubborn.id, "Cancelled").cause == "Cancelled"
            assert wait_status(client, six.id, "Running").generation == 1
            two = client.submit(journal.gang(2, name="two"))
            wait_for(lambda: _is_told(client, two.id, "DevicesUnhealthy"), "it is told what it waits for")
            assert_recovers(client)
            journal.open()
            judge(up, client, journal, dict.fromkeys([six.id, two.id], SUCCEEDED))
        assert witness.faults == []
        assert up.stop() == 0


def _is_told(client: Client, group_id: str, code: str) -> bool | None:
    return True if code in {reason.code for reason in client.reasons(group_id).reasons} else None
