"""What owners have used so far, and how long their groups ran, as it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection, text

from service.store.charges import charges_of, decayed, seconds_between

#: A queue, and a user of a tenant.
OwnerKey: TypeAlias = tuple[int, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFilter:
    """None: any."""

    queue: str | None = None
    tenant: str | None = None
    owner: str | None = None
    resource: str | None = None


class UsageKey(NamedTuple):
    """Where a page ended."""

    queue: str
    tenant: str
    owner: str
    resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """Of one owner in one queue, by resource: `amount` is held now. Amounts times seconds: `held_seconds`
    in all, what is held now included; `lost_seconds` of it to the platform; `decayed_seconds`: what is
    over, was charged and counts yet."""

    queue: str
    tenant: str
    owner: str
    resource: str
    amount: int
    held_seconds: float
    lost_seconds: float
    decayed_seconds: float

    @property
    def key(self) -> UsageKey:
        return UsageKey(self.queue, self.tenant, self.owner, self.resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtimes:
    """Quantiles of some runtimes, in seconds; `cut`: how many of the samples ran into their time limit."""

    samples: int
    cut: int
    p50_seconds: float | None
    p90_seconds: float | None


def list_usage(
    conn: Connection,
    wanted: UsageFilter,
    *,
    half_life_seconds: float,
    now: datetime,
    after: UsageKey | None,
    limit: int,
) -> list[UsageRow]:
    """By queue, tenant, owner and resource: at most `limit` behind `after`."""
    behind = dict(zip(UsageKey._fields, after or (None,) * len(UsageKey._fields), strict=True))
    values = {
        **{f"after_{field}": value for field, value in behind.items()},
        "limit": limit,
        "queue": wanted.queue,
        "tenant": wanted.tenant,
        "owner": wanted.owner,
        "resource": wanted.resource,
        "half_life": half_life_seconds,
        "now": now,
    }
    return [UsageRow(**row._mapping) for row in conn.execute(_USAGE, values)]


def read_runtimes(
    conn: Connection,
    *,
    queue_id: int | None = None,
    owner: tuple[str, str] | None = None,
    most: int = 1_000,
) -> Runtimes:
    """Of the newest attempts in a queue, or in all; with `owner`, its tenant and user, of these alone."""
    where, values = _of_whom(queue_id, owner)
    (row,) = conn.execute(text(_RUNTIMES.format(condition=where)), values | {"most": most})
    return Runtimes(**row._mapping)


def list_medians(
    conn: Connection, keys: Sequence[OwnerKey], *, fewest: int, most: int = 1_000
) -> list[float | None]:
    """Of each of these, in seconds, the median of its own newest attempts; of fewer than `fewest` that of
    its queue, then of all; None if these are too few. One statement, however many there are.

    `service.operations.learned_runtimes.best_runtimes` follows the same rule for one, and tells whose
    attempts it took: whoever changes one changes both.
    """
    queue_ids, tenants, owners = (list(column) for column in zip(*keys, strict=True))
    values = {"queue_ids": queue_ids, "tenants": tenants, "owners": owners, "fewest": fewest, "most": most}
    return list(conn.execute(_MEDIANS, values).scalars())


def list_runtimes(
    conn: Connection,
    *,
    queue_id: int | None = None,
    owner: tuple[str, str] | None = None,
    most: int = 200,
) -> tuple[float, ...]:
    """In seconds, sorted: of the newest of the attempts of which `read_runtimes` tells."""
    where, values = _of_whom(queue_id, owner)
    statement = text(_LIST_RUNTIMES.format(condition=where))
    return tuple(float(each) for each in conn.execute(statement, values | {"most": most}).scalars())


def _of_whom(queue_id: int | None, owner: tuple[str, str] | None) -> tuple[str, dict[str, object]]:
    """A condition on runtimes, and its values."""
    tenant, user = owner or (None, None)
    where = ["queue_id = :queue_id"] if queue_id is not None else []
    where += ["tenant = :tenant", "owner = :owner"] if owner is not None else []
    condition = f"WHERE {' AND '.join(where)}" if where else ""
    return condition, {"queue_id": queue_id, "tenant": tenant, "owner": user}


_H, _NOW = "CAST(:half_life AS float8)", "CAST(:now AS timestamptz)"
_LIVE_SECONDS = seconds_between(
    "COALESCE((a.held_before -> -1 ->> 'ended_at')::timestamptz, a.admitted_at)", _NOW
)
_BEFORE_SECONDS = seconds_between("b.began_at", "b.ended_at")
_LEFT = decayed("p.decayed_seconds", seconds_between("p.as_of", _NOW), half_life=_H)
_USAGE = text(f"""
WITH parts AS (
  SELECT queue_id, tenant, owner, resource, 0::bigint AS amount, held_seconds, lost_seconds,
    decayed_seconds, as_of FROM usage
  UNION ALL
  SELECT queue_id, tenant, owner, resource, 0, held_seconds, lost_seconds, decayed_seconds, ended_at
  FROM ({charges_of("SELECT unit_id, attempt FROM uncharged_attempts", half_life=_H)}) noted
  UNION ALL
  SELECT a.queue_id, g.tenant, g.owner, u.resource, u.amount::bigint, u.amount::float8 * {_LIVE_SECONDS},
    0, 0, {_NOW}
  FROM attempts a JOIN groups g ON g.id = a.group_id, jsonb_each_text(a.usage) AS u (resource, amount)
  UNION ALL
  SELECT a.queue_id, g.tenant, g.owner, u.resource, 0, u.amount::float8 * {_BEFORE_SECONDS}, 0, 0, {_NOW}
  FROM attempts a JOIN groups g ON g.id = a.group_id,
    jsonb_to_recordset(a.held_before) AS b (usage jsonb, began_at timestamptz, ended_at timestamptz),
    jsonb_each_text(b.usage) AS u (resource, amount)
)
SELECT q.name AS queue, p.tenant, p.owner, p.resource, sum(p.amount)::bigint AS amount,
  sum(p.held_seconds) AS held_seconds, sum(p.lost_seconds) AS lost_seconds, sum({_LEFT}) AS decayed_seconds
FROM parts p JOIN queues q ON q.id = p.queue_id
WHERE (CAST(:queue AS text) IS NULL OR q.name = :queue)
  AND (CAST(:tenant AS text) IS NULL OR p.tenant = :tenant)
  AND (CAST(:owner AS text) IS NULL OR p.owner = :owner)
  AND (CAST(:resource AS text) IS NULL OR p.resource = :resource)
  AND (CAST(:after_queue AS text) IS NULL
       OR (q.name, p.tenant, p.owner, p.resource)
          > (:after_queue, :after_tenant, :after_owner, :after_resource))
GROUP BY q.name, p.tenant, p.owner, p.resource
HAVING sum(p.held_seconds) > 0 OR sum(p.amount) > 0
ORDER BY q.name, p.tenant, p.owner, p.resource LIMIT :limit
""")  # noqa: S608

#: At its limit an attempt would have run on: it counts with what it ran, and is told.
_RUNTIMES = """
SELECT count(*) AS samples, count(*) FILTER (WHERE is_cut) AS cut,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS p50_seconds,
  percentile_cont(0.9) WITHIN GROUP (ORDER BY seconds) AS p90_seconds
FROM (SELECT seconds, is_cut FROM runtimes {condition} ORDER BY ended_at DESC LIMIT :most) newest
"""
_NEWEST = """
SELECT CASE WHEN count(*) >= :fewest THEN percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) END AS median
FROM (SELECT seconds FROM runtimes {condition} ORDER BY ended_at DESC LIMIT :most) newest
"""
_OF_OWNER = _NEWEST.format(condition="WHERE queue_id = k.queue_id AND tenant = k.tenant AND owner = k.owner")
_OF_QUEUE = _NEWEST.format(condition="WHERE queue_id = k.queue_id AND own.median IS NULL")
_MEDIANS = text(f"""
WITH of_all AS MATERIALIZED ({_NEWEST.format(condition="")})
SELECT COALESCE(own.median, of_queue.median, (SELECT median FROM of_all)) FROM unnest(
  CAST(:queue_ids AS bigint[]), CAST(:tenants AS text[]), CAST(:owners AS text[])
) WITH ORDINALITY AS k (queue_id, tenant, owner, number)
CROSS JOIN LATERAL ({_OF_OWNER}) AS own CROSS JOIN LATERAL ({_OF_QUEUE}) AS of_queue
ORDER BY k.number
""")  # noqa: S608
_LIST_RUNTIMES = """
SELECT seconds FROM (
  SELECT seconds FROM runtimes {condition} ORDER BY ended_at DESC LIMIT :most
) newest ORDER BY seconds
"""
