"""What must be true of groups once the faults are over and all of them have ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

import psycopg

from service.client import Client
from tests.e2e.journals import Journal, Notes
from tests.e2e.stacks import Up, assert_clean, wait_for
from tests.e2e.witness import connect, wait_without_members
from workers.launchers.base import GenerationKey

_END_SECONDS = 60.0

_LIVE = """
    SELECT count(*) FROM units u JOIN groups g ON g.id = u.group_id
    WHERE g.labels->>'run' = %s AND u.ended_at IS NULL
"""
_GROUPS = "SELECT public_id::text FROM groups WHERE labels->>'run' = %s"
_UNITS = """
    SELECT u.id, u.status, u.attempt, u.first_index, u.last_index, g.id, g.member_count, g.scheduling
    FROM units u JOIN groups g ON g.id = u.group_id WHERE g.labels->>'run' = %s
"""
_CLOSED = """
    SELECT c.unit_id, c.attempt, c.generation, c.outcome
    FROM closed_attempts c JOIN groups g ON g.id = c.group_id WHERE g.labels->>'run' = %s
"""
_SUCCEEDED = """
    SELECT e.unit_id, count(*) FROM events e JOIN groups g ON g.id = e.group_id
    WHERE g.labels->>'run' = %s AND e.kind = 'Succeeded' AND e.unit_id IS NOT NULL GROUP BY e.unit_id
"""
_ENDS = """
    SELECT m.unit_id, m.attempt, m.generation, m.member, m.exit_code
    FROM member_ends m JOIN units u ON u.id = m.unit_id JOIN groups g ON g.id = u.group_id
    WHERE g.labels->>'run' = %s
"""


def judge(up: Up, client: Client, journal: Journal, group_ids: Collection[str]) -> None:
    """Wait for the end of the journal's groups, which are exactly `group_ids`, and look at what is left."""
    with connect(up.data) as conn:
        wait_for(
            lambda: True if conn.execute(_LIVE, [journal.label]).fetchone() == (0,) else None,
            "all groups have ended",
            seconds=_END_SECONDS,
        )
        known = {row[0] for row in conn.execute(_GROUPS, [journal.label])}
        assert known == set(group_ids), f"lost {set(group_ids) - known}, doubled {known - set(group_ids)}"
        _judge_units(conn, journal)
        held = conn.execute("SELECT (SELECT count(*) FROM attempts), (SELECT count(*) FROM held_devices)")
        assert held.fetchone() == (0, 0)
    wait_without_members(up.data)
    assert_clean(client)
    inventory = client.inventory()
    assert (inventory.gpus_held, inventory.gpus_lost) == (0, 0)


def _judge_units(conn: psycopg.Connection, journal: Journal) -> None:
    """Every unit succeeded, once; every member of each generation was started at most once."""
    notes = journal.notes()
    successes = _successes(conn, journal.label)
    ends = _ends(conn, journal.label)
    told: dict[int, int] = dict(conn.execute(_SUCCEEDED, [journal.label]).fetchall())
    assert [key for key, times in notes.begun.items() if times > 1] == [], "started twice"
    assert [key for key, times in notes.ended.items() if times > 1] == [], "ended twice"
    indices: dict[int, Counter[int]] = defaultdict(Counter)
    members: dict[int, int] = {}
    for unit_id, status, _, first, last, group, count, scheduling in conn.execute(_UNITS, [journal.label]):
        assert status == "Succeeded", (unit_id, status)
        assert len(successes[unit_id]) == 1, (unit_id, successes[unit_id])
        assert told.get(unit_id) == 1, unit_id
        size = count if scheduling == "gang" else 1
        (generation,) = successes[unit_id]
        _judge_generation(notes, generation, size)
        assert ends[generation] == [0] * size, (generation, ends[generation])
        indices[group].update(range(count) if scheduling == "gang" else range(first, last + 1))
        members[group] = count
    for group, seen in indices.items():
        assert seen == Counter(range(members[group])), f"members of group {group}: {seen}"


def _judge_generation(notes: Notes, generation: GenerationKey, size: int) -> None:
    begun = {key for key in notes.begun if key.of == generation}
    ended = {key for key in notes.ended if key.of == generation}
    assert (len(begun), len(ended)) == (size, size), (generation, begun, ended)


def _successes(conn: psycopg.Connection, label: str) -> dict[int, list[GenerationKey]]:
    found: dict[int, list[GenerationKey]] = defaultdict(list)
    for unit_id, attempt, generation, outcome in conn.execute(_CLOSED, [label]):
        if outcome == "Succeeded":
            found[unit_id].append(GenerationKey(unit_id, attempt, generation))
    return found


def _ends(conn: psycopg.Connection, label: str) -> dict[GenerationKey, list[int | None]]:
    found: dict[GenerationKey, list[int | None]] = defaultdict(list)
    for unit_id, attempt, generation, _, exit_code in conn.execute(_ENDS, [label]):
        found[GenerationKey(unit_id, attempt, generation)].append(exit_code)
    return found
