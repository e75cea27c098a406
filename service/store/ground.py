"""What a submission stands on: its queues, the version of the configuration, shapes that are known, and
the ids of what it will write, all in one look."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection, text

#: A queue's name, a tenant, and whether who asks is an operator.
Entry: TypeAlias = tuple[str, str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """`queues`: ids of those that are open, by entry; the others are not there or take only groups of
    another tenant, and both look alike. `shapes`: ids of those that are known, by digest. `group_ids`
    are new and ascending: the order of ids is the order of submission."""

    config_version: int
    queues: dict[Entry, int]
    shapes: dict[bytes, int]
    group_ids: list[int]


def read_ground(
    conn: Connection,
    *,
    entries: Collection[Entry],
    digests: Collection[bytes],
    groups: int,
    lock_timeout: str,
) -> Ground:
    """The queues cannot be deleted before the transaction ends. From here on it waits for no lock longer
    than `lock_timeout`, such as `250ms`."""
    names, tenants, operators = zip(*entries, strict=True)
    row = conn.execute(
        _LOOK,
        {
            "names": list(names),
            "tenants": list(tenants),
            "operators": list(operators),
            "digests": list(digests),
            "groups": groups,
            "lock_timeout": lock_timeout,
        },
    ).one()
    return Ground(
        config_version=row.version,
        queues={entry: found for entry, found in zip(entries, row.queues, strict=True) if found is not None},
        shapes={
            digest: found for digest, found in zip(digests, row.shapes, strict=True) if found is not None
        },
        # As text: psycopg takes ten times as long for an array of as many.
        group_ids=sorted(map(int, row.group_ids.split(","))),
    )


#: A sub-select for each entry and digest looks into an index, whatever the planner thinks of arrays.
_LOOK = text("""
SELECT set_config('lock_timeout', :lock_timeout, true),
  (SELECT version FROM config WHERE id = 1) AS version,
  ARRAY(
    SELECT (
      SELECT q.id FROM queues q
      WHERE q.name = entry.name AND q.deleted_at IS NULL AND q.deleting_at IS NULL
        AND (entry.is_operator OR q.tenant IS NULL OR q.tenant = entry.tenant)
      FOR KEY SHARE
    )
    FROM unnest(CAST(:names AS text[]), CAST(:tenants AS text[]), CAST(:operators AS boolean[]))
      WITH ORDINALITY AS entry (name, tenant, is_operator, position)
    ORDER BY position
  ) AS queues,
  ARRAY(
    SELECT (SELECT s.id FROM shapes s WHERE s.digest = wanted.digest)
    FROM unnest(CAST(:digests AS bytea[])) WITH ORDINALITY AS wanted (digest, position)
    ORDER BY position
  ) AS shapes,
  array_to_string(ARRAY(SELECT nextval('groups_id_seq') FROM generate_series(1, :groups)), ',') AS group_ids
""")
