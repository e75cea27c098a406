"""What must be true of groups once the faults are over and all of them have ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import psycopg

from service.client import Client
from tests.e2e.stacks import Up, assert_clean, wait_for
from tests.faults.journals import Journal, Notes
from tests.faults.receipts import judge_policy
from tests.faults.witness import connect
from workers.launchers.base import GenerationKey

#: The statuses in which a group may end.
Ends = frozenset[str]
SUCCEEDED: Ends = frozenset({"Succeeded"})
ANY_END: Ends = SUCCEEDED | {"Failed", "Cancelled"}

_END_SECONDS = 60.0
_GONE_SECONDS = 10.0

_LIVE = """
    SELECT count(*) FROM units u JOIN groups g ON g.id = u.group_id
    WHERE g.labels->>'run' = %s AND u.ended_at IS NULL
"""
_GROUPS = "SELECT public_id::text FROM groups WHERE labels->>'run' = %s"
_UNITS = """
    SELECT u.id, u.status, g.public_id::text, u.first_index, u.last_index, g.member_count, g.scheduling,
           s.shape ->> 'sizing' IS NOT NULL
    FROM units u JOIN groups g ON g.id = u.group_id JOIN shapes s ON s.id = g.shape_id
    WHERE g.labels->>'run' = %s
"""
_CLOSED = """
    SELECT c.unit_id, c.attempt, c.generation, c.outcome, jsonb_array_length(c.places)
    FROM closed_attempts c JOIN groups g ON g.id = c.group_id WHERE g.labels->>'run' = %s
"""
_TOLD = """
    SELECT e.unit_id, e.kind FROM events e JOIN groups g ON g.id = e.group_id
    WHERE g.labels->>'run' = %s AND e.kind IN ('Succeeded', 'Failed', 'Cancelled') AND e.unit_id IS NOT NULL
"""
_ENDS = """
    SELECT m.unit_id, m.attempt, m.generation, m.member, m.exit_code
    FROM member_ends m JOIN units u ON u.id = m.unit_id JOIN groups g ON g.id = u.group_id
    WHERE g.labels->>'run' = %s
"""


def judge(up: Up, client: Client, journal: Journal, ends: Mapping[str, Ends]) -> None:
    """Wait for the end of the journal's groups, and look at what is left. `ends`: each of these groups
    by its public id, with the statuses in which it may have ended.

    Section 13 of the architecture, as far as one can see it when all is over: no group is lost or
    doubled; each unit has ended once, as it may, and that is told once; who succeeded ran whole, in one
    generation of which each member began once, ended once and is recorded once; no generation began
    twice; nothing is held and nothing runs any more; PostgreSQL, ledger and processes agree. And what
    `judge_policy` says of evictions, claims and usage.
    """
    with connect(up.data) as conn:
        wait_for(
            lambda: True if conn.execute(_LIVE, [journal.label]).fetchone() == (0,) else None,
            "all groups have ended",
            seconds=_END_SECONDS,
        )
        known = [row[0] for row in conn.execute(_GROUPS, [journal.label])]
        lost, foreign = ends.keys() - set(known), Counter(known) - Counter(list(ends))
        assert not lost, f"lost: {lost}"
        assert not foreign, f"doubled or foreign: {foreign}"
        _judge_units(conn, journal, ends)
        judge_policy(conn, journal.label)
        held = conn.execute("SELECT (SELECT count(*) FROM attempts), (SELECT count(*) FROM held_devices)")
        assert held.fetchone() == (0, 0)
    members = journal.members_on(up.data)
    wait_for(lambda: None if members.live() else True, "no member runs", seconds=_GONE_SECONDS)
    assert_clean(client)
    inventory = client.inventory()
    assert (inventory.gpus_held, inventory.gpus_lost) == (0, 0)


def _judge_units(conn: psycopg.Connection, journal: Journal, ends: Mapping[str, Ends]) -> None:
    notes = journal.notes()
    successes = _successes(conn, journal.label)
    recorded = _ends(conn, journal.label)
    told = _told(conn, journal.label)
    indices: dict[str, Counter[int]] = defaultdict(Counter)
    members: dict[str, int] = {}
    for row in conn.execute(_UNITS, [journal.label]):
        unit_id, status, group, first, last, count, scheduling, is_elastic = row
        is_gang = scheduling == "gang"
        assert status in ends[group], (group, unit_id, status)
        assert told[unit_id] == [status], (group, unit_id, told[unit_id])
        generations = successes[unit_id]
        assert len(generations) == (status == "Succeeded"), (group, unit_id, status, generations)
        for generation, size in generations.items():
            assert is_elastic or size == (count if is_gang else 1), (generation, size)
            assert recorded[generation] == [0] * size, (generation, recorded[generation])
            if journal.has_notes:
                _judge_generation(notes, generation, size)
        indices[group].update(range(count) if is_gang else range(first, last + 1))
        members[group] = count
    for group, seen in indices.items():
        assert seen == Counter(range(members[group])), f"members of group {group}: {seen}"
    if journal.has_notes:
        assert [key for key, times in notes.begun.items() if times > 1] == [], "started twice"
        assert [key for key, times in notes.ended.items() if times > 1] == [], "ended twice"


def _judge_generation(notes: Notes, generation: GenerationKey, size: int) -> None:
    begun = {key for key in notes.begun if key.of == generation}
    ended = {key for key in notes.ended if key.of == generation}
    assert (len(begun), len(ended)) == (size, size), (generation, begun, ended)


def _successes(conn: psycopg.Connection, label: str) -> dict[int, dict[GenerationKey, int]]:
    """By unit the generations that succeeded, and how many members each had in the end."""
    found: dict[int, dict[GenerationKey, int]] = defaultdict(dict)
    for unit_id, attempt, generation, outcome, size in conn.execute(_CLOSED, [label]):
        if outcome == "Succeeded":
            found[unit_id][GenerationKey(unit_id, attempt, generation)] = size
    return found


def _ends(conn: psycopg.Connection, label: str) -> dict[GenerationKey, list[int | None]]:
    found: dict[GenerationKey, list[int | None]] = defaultdict(list)
    for unit_id, attempt, generation, _, exit_code in conn.execute(_ENDS, [label]):
        found[GenerationKey(unit_id, attempt, generation)].append(exit_code)
    return found


def _told(conn: psycopg.Connection, label: str) -> dict[int, list[str]]:
    """The kinds of the events that say that a unit has ended."""
    found: dict[int, list[str]] = defaultdict(list)
    for unit_id, kind in conn.execute(_TOLD, [label]):
        found[unit_id].append(kind)
    return found
