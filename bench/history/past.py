"""A past for a database: groups that have ended, with everything that they leave."""

from __future__ import annotations

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

#: Events of each ended group: five, so that a million groups leave five million.
EVENTS = 5

#: Indexes that are made at the end are made in a fraction of the time that keeping them takes.
_INDEXES = (
    "SELECT indexname, indexdef FROM pg_indexes i WHERE schemaname = 'public' AND tablename = ANY(:tables)"
    " AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conname = i.indexname)"
)
_TABLES = ["groups", "units", "events", "closed_attempts", "member_ends"]

_GROUPS = """
INSERT INTO groups (public_id, name, queue_id, shape_id, tenant, owner, priority, scheduling, member_count,
  submitted_at, grace_seconds, on_member_loss, max_restarts, backoff_seconds, seat_timeout_seconds,
  is_preemptible, labels)
SELECT gen_random_uuid(), 'past', q.ids[1 + i % cardinality(q.ids)], s.id, 'bench', 'bench', 0, 'gang', 1,
  now() - make_interval(secs => :count + 86400 - i), 0, 'fail', 0, 0, 60, true, '{}'
FROM generate_series(1, :count) AS i, (SELECT array_agg(id) AS ids FROM queues) q,
  (SELECT min(id) AS id FROM shapes) s
"""
_SPECS = """
INSERT INTO group_specs (group_id, spec)
SELECT id, (SELECT spec FROM group_specs ORDER BY group_id LIMIT 1) FROM groups WHERE name = 'past'
"""
_UNITS = """
INSERT INTO units (id, group_id, first_index, last_index, status, attempt, version, is_held, restarts_used,
  refused_dispatches, failed_nodes, admitted_at, ended_at)
SELECT id << 20, id, 0, 0, 'Succeeded', 1, 5, false, 0, 0, '{}', submitted_at + interval '1 second',
  submitted_at + interval '1 minute' FROM groups WHERE name = 'past'
"""
_ATTEMPTS = """
INSERT INTO closed_attempts (unit_id, attempt, group_id, queue_id, generation, dispatches, places, usage,
  admitted_at, running_at, ended_at, closed_at, outcome, gpu_seconds)
SELECT id << 20, 1, id, queue_id, 1, 1, '[[0, 0, 1, [0]]]', '{"cpus": 1000, "memory": 1024}',
  submitted_at + interval '1 second', submitted_at + interval '2 seconds',
  submitted_at + interval '1 minute', submitted_at + interval '1 minute', 'Succeeded', 59
FROM groups WHERE name = 'past'
"""
_ENDS = """
INSERT INTO member_ends (unit_id, attempt, generation, member, exit_code, ended_at)
SELECT id << 20, 1, 1, 0, 0, submitted_at + interval '1 minute' FROM groups WHERE name = 'past'
"""
_EVENTS = f"""
INSERT INTO events (is_feed, at, kind, group_id, unit_id, attempt, generation, actor)
SELECT kind = ANY('{{Submitted,Succeeded}}'), submitted_at + make_interval(secs => n), kind, id, id << 20,
  1, 1, 'muster'
FROM groups, unnest('{{Submitted,Admitted,Running,MemberEnded,Succeeded}}'::text[])
  WITH ORDINALITY AS kinds (kind, n)
WHERE name = 'past' AND n <= {EVENTS} ORDER BY id, n
"""


def add_past(engine: Engine, count: int, *, settles: bool = True) -> None:
    """`count` ended groups in all queues, of the shape of one that is there, and five events for each;
    if it `settles`, then what autovacuum would have done by now."""
    # The service's own engine gives up waiting for what takes long.
    patient = create_engine(engine.url, poolclass=NullPool)
    with patient.begin() as conn:
        conn.execute(text("SET LOCAL synchronous_commit = off"))
        # Of rows that follow from each other the database need not be told one by one.
        conn.execute(text("SET LOCAL session_replication_role = replica"))
        indexes = conn.execute(text(_INDEXES), {"tables": _TABLES}).all()
        for index in indexes:
            conn.execute(text(f'DROP INDEX "{index.indexname}"'))
        for statement in (_GROUPS, _SPECS, _UNITS, _ATTEMPTS, _ENDS, _EVENTS):
            conn.execute(text(statement), {"count": count} if statement is _GROUPS else {})
        for index in indexes:
            conn.execute(text(index.indexdef))
    if settles:
        settle(engine)


def settle(engine: Engine) -> None:
    """Vacuum and analyze everything."""
    patient = create_engine(engine.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with patient.connect() as conn:
        conn.execute(text("VACUUM ANALYZE"))
