"""What PostgreSQL says, read directly: the runner trusts no answer where the books can tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, text

from service.domain.unit import index_of
from tests.scenarios.scenario import Map

_TRACKED = {
    "groups": ("groups", "group_specs", "units", "member_ends", "held_devices", "closed_attempts"),
    "events": ("events",),
    "dispatches": ("attempts",),
}

_TRIGGER = """
CREATE TABLE scenario_writes (id BIGINT GENERATED ALWAYS AS IDENTITY, relation TEXT, group_id BIGINT);
CREATE FUNCTION scenario_count() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  changed jsonb := to_jsonb(CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END);
BEGIN
  INSERT INTO scenario_writes (relation, group_id) VALUES (TG_TABLE_NAME, coalesce(
    (changed->>'group_id')::bigint,
    CASE WHEN TG_TABLE_NAME = 'groups' THEN (changed->>'id')::bigint END,
    (changed->>'unit_id')::bigint >> 20));
  RETURN NULL;
END $$;
"""


@dataclass(frozen=True)
class Held:
    """One attempt that holds places: GPUs by node name, members by index."""

    group: str
    queue: str
    attempt: int
    gpus: dict[str, int]
    usage: dict[str, int]
    places: list[tuple[int, int, str, list[int]]]


class Books:
    """Reads of one scenario's database. Groups go by their scenario names, which are unique."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def rows(self, statement: str, **values: object) -> Sequence[Map]:
        with self._engine.connect() as conn:
            return [dict(row) for row in conn.execute(text(statement), values).mappings()]

    def count_writes(self) -> None:
        """From now on every row that is written counts (`writes`)."""
        with self._engine.begin() as conn:
            conn.execute(text(_TRIGGER))
            for table in sorted({table for tables in _TRACKED.values() for table in tables}):
                conn.execute(
                    text(
                        f"CREATE TRIGGER scenario_writes AFTER INSERT OR UPDATE OR DELETE ON {table}"
                        " FOR EACH ROW EXECUTE FUNCTION scenario_count()"
                    )
                )

    def writes(self, table: str, *, since: int, groups: Iterable[str] | None) -> int:
        rows = self.rows(
            "SELECT w.relation, g.name FROM scenario_writes w"
            " LEFT JOIN groups g ON g.id = w.group_id WHERE w.id > :since",
            since=since,
        )
        wanted = None if groups is None else set(groups)
        return sum(
            row["relation"] in _TRACKED[table] and (wanted is None or row["name"] in wanted) for row in rows
        )

    def marker(self) -> dict[str, int]:
        """How far the books are: for everything that counts `since` a step."""
        [row] = self.rows(
            "SELECT (SELECT coalesce(max(id), 0) FROM events) AS events,"
            " (SELECT coalesce(max(id), 0) FROM scenario_writes) AS writes"
        )
        return dict(row)

    def held(self) -> list[Held]:
        """Every attempt that holds places."""
        nodes = {row["id"]: row["name"] for row in self.rows("SELECT id, name FROM nodes")}
        rows = self.rows(
            "SELECT g.name AS group, q.name AS queue, a.attempt, a.places, a.usage FROM attempts a"
            " JOIN groups g ON g.id = a.group_id JOIN queues q ON q.id = a.queue_id ORDER BY a.unit_id"
        )
        return [_held(row, nodes) for row in rows]

    def units(self) -> list[Map]:
        """Every unit row, with its group's name and the member indexes that it covers."""
        rows = self.rows(
            "SELECT u.*, g.name AS group, g.queue_id, g.scheduling, g.not_before_at, q.name AS queue"
            " FROM units u JOIN groups g ON g.id = u.group_id JOIN queues q ON q.id = g.queue_id"
            " ORDER BY u.id"
        )
        return [row | {"index": index_of(row["id"])} for row in rows]

    def events(self, *kinds: str, since: int = 0) -> list[Map]:
        return list(
            self.rows(
                "SELECT e.*, g.name AS group FROM events e LEFT JOIN groups g ON g.id = e.group_id"
                " WHERE e.kind = ANY(:kinds) AND e.id > :since ORDER BY e.id",
                kinds=list(kinds),
                since=since,
            )
        )


def _held(row: Map, nodes: dict[int, str]) -> Held:
    places = [(member, role, nodes[node], devices) for member, role, node, devices in row["places"]]
    gpus: dict[str, int] = {}
    for _, _, node, devices in places:
        gpus[node] = gpus.get(node, 0) + len(devices)
    return Held(row["group"], row["queue"], row["attempt"], gpus, row["usage"], places)
