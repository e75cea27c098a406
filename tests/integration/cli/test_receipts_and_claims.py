"""What was decided for a group that waits: who gave way to it, and what is kept for it."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from sqlalchemy import NullPool, TextClause, create_engine, text

from service.client import Client
from service.client.groups import Group, Size
from tests.integration.api.rows import add_nodes, add_pool
from tests.integration.cli.conftest import Muster
from tests.integration.cli.terminal import at_terminal, lines_of

RECEIPT = text(
    "INSERT INTO preemptions (unit_id, attempt, group_id, queue_id, claimant_unit_id, claimant_group_id,"
    " claimant_queue_id, entitlement, claimant_share_before, victim_share_before, claimant_share_after,"
    " victim_share_after, lost_gpu_seconds, decided_at, revision, members)"
    " SELECT v.id, 1, v.group_id, g.queue_id, c.id, c.group_id, h.queue_id, 'FairShare', 0.125, 'infinity',"
    " 0.25, 0.5, 123456, '2026-03-04T12:00:00Z', :revision, CAST(:members AS int)"
    " FROM units v JOIN groups g ON g.id = v.group_id, units c JOIN groups h ON h.id = c.group_id"
    " WHERE g.name = 'victim' AND h.name = 'claimant'"
)
CLAIM = text(
    "INSERT INTO claims (unit_id, cause, made_at, due_at, places, redated)"
    " SELECT u.id, :cause, '2026-03-04T12:00:00Z', CAST(:due_at AS timestamptz), '[[0, 0, 1, [0, 1]]]', 0"
    " FROM units u JOIN groups g ON g.id = u.group_id WHERE g.name = 'claimant'"
)


@pytest.fixture
def groups(client: Client) -> tuple[Group, Group]:
    """A victim and a claimant, in queues with long names."""
    for queue in ("a-queue-with-a-long-name", "another-queue-with-a-long-name"):
        client.queues.create(queue, {})
    asked = {"gpus": 2, "command": ["x"], "allow_infeasible": True}
    victim = client.submit(asked | {"name": "victim", "queue": "a-queue-with-a-long-name"})
    claimant = client.submit(asked | {"name": "claimant", "queue": "another-queue-with-a-long-name"})
    return client.get(str(victim.id)), client.get(str(claimant.id))


def _write(database_url: str, statement: TextClause, **values: object) -> None:
    engine = create_engine(database_url, poolclass=NullPool)
    with engine.begin() as conn:
        conn.execute(statement, values)


def test_a_receipt_fits_with_both_shares(
    server: str, database_url: str, groups: tuple[Group, Group], muster: Muster
) -> None:
    victim, claimant = groups
    _write(database_url, RECEIPT, revision=0, members=None)
    lines = lines_of(at_terminal(server, "receipts", columns=80))
    assert all(len(line) <= 80 for line in lines), lines
    [gave_way] = [line for line in lines if victim.id[-12:] in line]
    [for_whom] = [line for line in lines if f"for {claimant.id[-12:]}" in line]
    for part in ("\N{INFINITY}", "0.50", "FairShare", "123456 GPU-s", "a-qu"):
        assert part in gave_way
    for part in ("0.12", "0.25", "waiting", "anot"):
        assert part in for_whom
    [fields] = muster("receipts").rows
    assert (UUID(fields[1]), UUID(fields[3])) == (UUID(victim.id), UUID(claimant.id))
    assert fields[-1] == "all of it"


def test_a_receipt_of_members_says_how_many(
    server: str, database_url: str, groups: tuple[Group, Group], muster: Muster
) -> None:
    victim, claimant = groups
    _write(database_url, RECEIPT, revision=2, members=3)
    lines = lines_of(at_terminal(server, "receipts", columns=80))
    assert all(len(line) <= 80 for line in lines), lines
    # Of the one who gave way, so between the two, and no loss of the other's.
    [of_it] = [number for number, line in enumerate(lines) if "only 3 members" in line]
    assert victim.id[-12:] in lines[of_it - 1]
    assert f"for {claimant.id[-12:]}" in lines[of_it + 1]
    assert lines[of_it].index("only") == lines[of_it - 1].index(victim.id[-12:])
    [fields] = muster("receipts").rows
    assert fields[-1] == "3 members"


@pytest.mark.parametrize(
    ("cause", "due_at", "told"),
    [
        ("Head", "2026-03-05T12:00:00Z", "planned to be free by 2026-03-05"),
        ("Guard", None, "no date: somebody on them has no time limit"),
    ],
)
def test_what_is_kept_for_a_group_is_told(
    database_url: str,
    groups: tuple[Group, Group],
    muster: Muster,
    cause: str,
    due_at: str | None,
    told: str,
) -> None:
    assert "kept for it" not in muster("show", "claimant").out
    _write(database_url, CLAIM, cause=cause, due_at=due_at)
    kept = dict(row[:2] for row in muster("show", "claimant").rows if len(row) == 2)["kept for it"]
    assert kept.startswith("places with 2 GPUs since 2026-03-04")
    assert f"({cause})" in kept
    assert told in kept


def test_an_elastic_group_asks_from_its_least_to_its_most(server: str, client: Client) -> None:
    role = {"name": "w", "count": 3, "min_count": 1, "requests": {"gpus": 2}, "command": ["x"]}
    elastic = {"resize": "at_start", "resumes_from_checkpoint": True}
    client.submit({"name": "e", "roles": [role], "elastic": elastic, "allow_infeasible": True})
    lines = lines_of(at_terminal(server, "why", "e"))
    assert any("1 to 3 members, 2 to 6 GPUs in all" in line for line in lines), lines


HELD = text(
    "INSERT INTO attempts (unit_id, attempt, revision, generation, group_id, queue_id, pool_id, places,"
    " usage, dispatch, dispatches, admitted_at, dropping, drop_kill_at)"
    " SELECT u.id, 1, 1, 1, u.group_id, g.queue_id, :pool, CAST(:places AS jsonb), '{}', 'Launched', 1,"
    " now(), '{2}', now() FROM units u JOIN groups g ON g.id = u.group_id WHERE g.name = 'e'"
)
RUNS = text("UPDATE units SET status = 'Running', admitted_at = now() WHERE status = 'Pending'")


def _give_three_members(database_url: str) -> None:
    """Of which it gives up the last."""
    engine = create_engine(database_url, poolclass=NullPool)
    with engine.begin() as conn:
        pool = add_pool(conn)
        node = add_nodes(conn, pool, {"n1": (8, "mx")})["n1"]
        places = [[member, 0, node, [2 * member, 2 * member + 1]] for member in range(3)]
        conn.execute(HELD, {"pool": pool, "places": json.dumps(places)})
        conn.execute(RUNS)


def test_what_an_elastic_group_holds_is_listed_not_what_it_could_hold(
    server: str, database_url: str, client: Client, muster: Muster
) -> None:
    role = {"name": "w", "count": 8, "min_count": 2, "requests": {"gpus": 2}, "command": ["x"]}
    elastic = {"resize": "while_running", "resumes_from_checkpoint": True}
    client.submit({"name": "e", "roles": [role], "elastic": elastic, "allow_infeasible": True})
    client.submit({"name": "rigid", "members": 8, "gpus": 2, "command": ["x"], "allow_infeasible": True})
    sizes = {row[1]: row[5:7] for row in muster("list").rows}
    assert sizes == {"e": ["8", "16"], "rigid": ["8", "16"]}
    _give_three_members(database_url)
    # Who reads lines gets a number in each column.
    sizes = {row[1]: row[5:7] + row[10:] for row in muster("list").rows}
    assert sizes == {"e": ["8", "16", "2", "4"], "rigid": ["8", "16", "-", "-"]}
    listed = {group.name: group.size for group in client.list_groups()}
    assert listed == {"e": Size(min_members=2, present_members=2, present_gpus=4), "rigid": None}
    lines = lines_of(at_terminal(server, "list", columns=80))
    assert all(len(line) <= 80 for line in lines), lines
    assert any("2/8" in line and "4/16" in line for line in lines)
    shown = dict(row[:2] for row in muster("show", "e").rows if len(row) == 2)
    how = "it grows and shrinks while it runs, where its launcher can"
    assert shown["elastic"] == f"2/8 members held, at least 2, {how}"
