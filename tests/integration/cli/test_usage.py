"""`muster usage`: who used how much."""

from __future__ import annotations

import json

from sqlalchemy import create_engine, text

from tests.integration.cli.conftest import Muster

_USED = """
INSERT INTO usage (queue_id, tenant, owner, resource, held_seconds, lost_seconds, decayed_seconds, as_of)
SELECT id, 'default', owner, resource, held * 3600, lost * 3600, 0, now()
FROM queues, (VALUES ('alice', 'H100-80GB', 12.5, 2), ('alice', 'cpus', 4000, 0), ('bob', 'L4', 1, 0))
  AS used (owner, resource, held, lost) WHERE name = 'default'
"""


def test_hours_by_queue_user_and_model(muster: Muster, database_url: str) -> None:
    said = muster("usage")
    assert (said.code, said.rows) == (0, [])
    assert "Nothing was used" in said.err
    engine = create_engine(database_url)
    with engine.begin() as conn:
        conn.execute(text(_USED))
    engine.dispose()

    alice = ["default", "default/alice", "H100-80GB", "-", "12.50", "2.00", "-"]
    bob = ["default", "default/bob", "L4", "-", "1.00", "-", "-"]
    said = muster("usage")
    assert said.rows == [alice, bob]
    assert "no half-life" in said.err
    assert muster("usage", "--user", "bob").rows == [bob]
    assert muster("usage", "--queue", "none").rows == []
    assert [row[2:5] for row in muster("usage", "--resource", "cpus").rows] == [["CPUs", "-", "4.00"]]
    assert len(muster("usage", "--all").rows) == 3
    assert len(json.loads(muster("usage", "--json").out)["usage"]) == 3
