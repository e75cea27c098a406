"""The durable ledger of usage: closed attempts are taken up once, and what was charged decays."""

from __future__ import annotations

from sqlalchemy import Connection, text

from service.store.charges import charges_of, decayed, seconds_between

#: So many of the newest runtimes of an owner in a queue are kept.
RUNTIMES_KEPT = 200

Owner = tuple[int, str, str]


def get_half_life(conn: Connection, *, is_locked: bool = False) -> float:
    """By which the ledger's usage decays, in seconds; 0: what is over does not count. Locked against
    `set_half_life` until the end of the transaction, if asked to."""
    lock = " FOR SHARE" if is_locked else ""
    statement = f"SELECT half_life_seconds FROM usage_decay WHERE id = 1{lock}"  # noqa: S608
    return float(conn.execute(text(statement)).scalar_one())


def set_half_life(conn: Connection, half_life_seconds: float) -> bool:
    """From now on usage decays so; False if it does already. What counts yet is reckoned anew from the
    closed attempts that are in the books, each as if this half-life had always been the one."""
    if get_half_life(conn) == half_life_seconds:
        return False
    conn.execute(
        text("UPDATE usage_decay SET half_life_seconds = :half_life WHERE id = 1"),
        {"half_life": half_life_seconds},
    )
    conn.execute(text("UPDATE usage SET decayed_seconds = 0"))
    if half_life_seconds > 0:
        conn.execute(_RECKON, {"half_life": half_life_seconds})
    return True


def has_uncharged(conn: Connection) -> bool:
    """Whether `charge_some` would find any. It locks rows also where it finds none, and this does not."""
    return bool(conn.execute(text("SELECT EXISTS (SELECT FROM uncharged_attempts)")).scalar_one())


def charge_some(conn: Connection, *, limit: int) -> tuple[int, list[Owner]]:
    """Take up to `limit` closed attempts into the ledger; how many, and whose runtimes it noted: queue,
    tenant and user. Whoever does so at the same time takes others."""
    half_life = get_half_life(conn, is_locked=True)
    (row,) = conn.execute(_CHARGE, {"half_life": half_life, "limit": limit, "kept": RUNTIMES_KEPT})
    return row.attempts, [(each[0], each[1], each[2]) for each in row.owners or ()]


def drop_old_runtimes(conn: Connection, owners: list[Owner]) -> None:
    """Keep the newest of these owners."""
    conn.execute(
        _DROP_RUNTIMES,
        {
            "queues": [owner[0] for owner in owners],
            "tenants": [owner[1] for owner in owners],
            "owners": [owner[2] for owner in owners],
            "kept": RUNTIMES_KEPT,
        },
    )


_H = "CAST(:half_life AS float8)"

_LATER = "GREATEST(usage.as_of, excluded.as_of)"
_ADDED = decayed("p.decayed_seconds", seconds_between("p.ended_at", "p.as_of"), half_life=_H)
_KEPT = decayed("usage.decayed_seconds", seconds_between("usage.as_of", _LATER), half_life=_H)
_NEW = decayed("excluded.decayed_seconds", seconds_between("excluded.as_of", _LATER), half_life=_H)
#: Rows are locked in the order of their keys, whoever writes them.
_ADD = f"""
  INSERT INTO usage (queue_id, tenant, owner, resource, held_seconds, lost_seconds, decayed_seconds, as_of)
  SELECT p.queue_id, p.tenant, p.owner, p.resource, sum(p.held_seconds), sum(p.lost_seconds),
    sum({_ADDED}), p.as_of
  FROM (
    SELECT *, max(ended_at) OVER (PARTITION BY queue_id, tenant, owner, resource) AS as_of FROM parts
  ) p
  GROUP BY p.queue_id, p.tenant, p.owner, p.resource, p.as_of
  ORDER BY p.queue_id, p.tenant, p.owner, p.resource
  ON CONFLICT (queue_id, tenant, owner, resource) DO UPDATE SET
    held_seconds = usage.held_seconds + excluded.held_seconds,
    lost_seconds = usage.lost_seconds + excluded.lost_seconds,
    decayed_seconds = {_KEPT} + {_NEW},
    as_of = {_LATER}
"""  # noqa: S608

_TAKEN = charges_of("SELECT unit_id, attempt FROM taken", half_life=_H)
#: A runtime says something of the groups to come if the attempt ended by its own doing, or at its limit.
_CHARGE = text(f"""
WITH taken AS (
  DELETE FROM uncharged_attempts WHERE (unit_id, attempt) IN (
    SELECT unit_id, attempt FROM uncharged_attempts ORDER BY unit_id, attempt LIMIT :limit
    FOR UPDATE SKIP LOCKED)
  RETURNING unit_id, attempt
), parts AS MATERIALIZED (
  {_TAKEN}
), charged AS (
  {_ADD}
), ran AS (
  SELECT c.unit_id, c.attempt, c.queue_id, g.tenant, g.owner, c.ended_at,
    c.cause IS NOT DISTINCT FROM 'TimeLimit' AS is_cut,
    {seconds_between("c.running_at", "c.ended_at")} AS seconds,
    row_number() OVER (PARTITION BY c.queue_id, g.tenant, g.owner ORDER BY c.ended_at DESC) AS number
  FROM taken t
  JOIN closed_attempts c ON c.unit_id = t.unit_id AND c.attempt = t.attempt
  JOIN groups g ON g.id = c.group_id
  WHERE c.running_at IS NOT NULL AND (c.outcome = 'Succeeded' OR c.cause IN ('UserError', 'TimeLimit'))
), noted AS (
  INSERT INTO runtimes (unit_id, attempt, queue_id, tenant, owner, seconds, is_cut, ended_at)
  SELECT unit_id, attempt, queue_id, tenant, owner, seconds, is_cut, ended_at FROM ran WHERE number <= :kept
)
SELECT (SELECT count(*) FROM taken) AS attempts,
  (SELECT jsonb_agg(DISTINCT jsonb_build_array(queue_id, tenant, owner)) FROM ran) AS owners
""")  # noqa: S608

_IN_THE_LEDGER = """
  SELECT c.unit_id, c.attempt FROM closed_attempts c WHERE NOT EXISTS (
    SELECT FROM uncharged_attempts x WHERE x.unit_id = c.unit_id AND x.attempt = c.attempt)
"""
_RECKON = text(f"""
WITH parts AS MATERIALIZED (
  SELECT queue_id, tenant, owner, resource, ended_at, 0 AS held_seconds, 0 AS lost_seconds, decayed_seconds
  FROM ({charges_of(_IN_THE_LEDGER, half_life=_H)}) charges
)
{_ADD}
""")  # noqa: S608

_DROP_RUNTIMES = text("""
DELETE FROM runtimes r USING (
  SELECT n.unit_id, n.attempt
  FROM unnest(CAST(:queues AS bigint[]), CAST(:tenants AS text[]), CAST(:owners AS text[]))
    AS o (queue_id, tenant, owner)
  CROSS JOIN LATERAL (
    SELECT unit_id, attempt FROM runtimes
    WHERE (queue_id, tenant, owner) = (o.queue_id, o.tenant, o.owner)
    ORDER BY ended_at DESC, unit_id DESC, attempt DESC OFFSET :kept
  ) n
) old WHERE r.unit_id = old.unit_id AND r.attempt = old.attempt
""")
