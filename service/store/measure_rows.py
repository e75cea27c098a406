"""Numbers for /metrics, read at the time of a scrape."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from service.domain.status import GROUP_RANK, Status

#: Latencies are taken from the newest events, and no more of them: the read does not grow with history.
_NEWEST = "SELECT * FROM events ORDER BY id DESC LIMIT 20000"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCount:
    """GPUs of one model. Free: neither held nor lost; a held one counts as held, lost or not."""

    model: str
    held: int
    free: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueWait:
    """What waits in a queue, and since when the oldest of it."""

    queue: str
    groups: int
    oldest_at: datetime


def read_gpus(conn: Connection) -> tuple[GpuCount, ...]:
    rows = conn.execute(
        text(
            "SELECT model, count(*) FILTER (WHERE is_held) AS held,"
            " count(*) FILTER (WHERE NOT is_held AND is_lost) AS lost,"
            " count(*) FILTER (WHERE NOT is_held AND NOT is_lost) AS free FROM ("
            "  SELECT d.model, h.unit_id IS NOT NULL AS is_held,"
            "         d.lost_at IS NOT NULL OR NOT n.is_ready AS is_lost"
            "  FROM devices d JOIN nodes n ON n.id = d.node_id"
            "  LEFT JOIN held_devices h ON h.node_id = d.node_id AND h.device = d.device"
            ") each_device GROUP BY model ORDER BY model"
        )
    )
    return tuple(GpuCount(model=row.model, held=row.held, free=row.free, lost=row.lost) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unended:
    """What has not ended: queues in which something waits, the longest wait first, and groups by status."""

    waits: tuple[QueueWait, ...]
    groups: dict[str, int]


def read_unended(conn: Connection) -> Unended:
    """All groups that have not ended, in one pass."""
    groups: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    oldest: dict[str, datetime] = {}
    for row in conn.execute(_UNENDED):
        groups[row.status] += row.groups
        if row.oldest_at is not None:
            waiting[row.name] += row.waiting
            oldest[row.name] = min(row.oldest_at, oldest.get(row.name, row.oldest_at))
    waits = [
        QueueWait(queue=name, groups=waiting[name], oldest_at=oldest_at) for name, oldest_at in oldest.items()
    ]
    return Unended(waits=tuple(sorted(waits, key=lambda wait: wait.oldest_at)), groups=dict(groups))


def read_live(conn: Connection) -> dict[str, int]:
    """Units that hold places, by status."""
    rows = conn.execute(
        text("SELECT u.status, count(*) AS units FROM attempts a JOIN units u ON u.id = a.unit_id GROUP BY 1")
    )
    return {row.status: row.units for row in rows}


def read_ends(conn: Connection, *, since: datetime) -> dict[str, int]:
    """Units that ended since then, by how."""
    kinds = ("Succeeded", "Failed", "Cancelled")
    rows = conn.execute(
        text(
            f"SELECT kind, count(*) AS units FROM ({_NEWEST}) e"  # noqa: S608
            " WHERE at > :since AND kind = ANY(:kinds) GROUP BY 1"
        ),
        {"since": since, "kinds": list(kinds)},
    )
    return dict.fromkeys(kinds, 0) | {row.kind: row.units for row in rows}


def read_start_seconds(conn: Connection, *, since: datetime) -> list[float]:
    """From submission to Running, of first attempts that came to run since then."""
    return _seconds(
        conn,
        "SELECT extract(epoch FROM e.at - g.submitted_at) AS seconds FROM newest e"
        " JOIN groups g ON g.id = e.group_id"
        " WHERE e.kind = 'Running' AND e.attempt = 1 AND e.generation IS NOT DISTINCT FROM 1",
        since=since,
    )


def read_admit_seconds(conn: Connection, *, since: datetime) -> list[float]:
    """From submission to Admitted, of first attempts that were admitted since then."""
    return _seconds(
        conn,
        "SELECT extract(epoch FROM e.at - g.submitted_at) AS seconds FROM newest e"
        " JOIN groups g ON g.id = e.group_id WHERE e.kind = 'Admitted' AND e.attempt = 1",
        since=since,
    )


def read_release_seconds(conn: Connection, *, since: datetime) -> list[float]:
    """From the decision to end an attempt to its places being free, of those that were freed since
    then. The decision is its eviction, or the end of its last member; one that is not among the newest
    events any more is left out. All attempts in one pass: a look at its group's events for each would
    cost the square of the members."""
    return _seconds(
        conn,
        "SELECT extract(epoch FROM freed_at - coalesce(evicted_at, last_end_at)) AS seconds FROM ("
        "  SELECT max(at) FILTER (WHERE kind = 'Evicting') AS evicted_at,"
        "         max(at) FILTER (WHERE kind = 'MemberEnded') AS last_end_at,"
        "         max(at) FILTER (WHERE kind NOT IN ('Evicting', 'MemberEnded')) AS freed_at"
        "  FROM last WHERE kind IN"
        "    ('Evicting', 'MemberEnded', 'Succeeded', 'Failed', 'Cancelled', 'Requeued')"
        "  GROUP BY unit_id, attempt"
        ") attempt WHERE freed_at > :since AND coalesce(evicted_at, last_end_at) IS NOT NULL",
        since=since,
    )


def _seconds(conn: Connection, query: str, *, since: datetime) -> list[float]:
    """`query` may read `last`, the newest events, and `newest`, those of them since then."""
    newest = f"WITH last AS ({_NEWEST}), newest AS (SELECT * FROM last WHERE at > :since) "  # noqa: S608
    return [
        max(0.0, float(seconds)) for seconds in conn.execute(text(newest + query), {"since": since}).scalars()
    ]


#: By the first status of GROUP_RANK that one of its units has.
_RANKS = " ".join(f"WHEN '{status}' THEN {rank}" for rank, status in enumerate(GROUP_RANK))
_STATUSES = ", ".join(f"'{status}'" for status in GROUP_RANK)
_PENDING = GROUP_RANK.index(Status.PENDING)
_UNENDED = text(f"""
    SELECT q.name, (ARRAY[{_STATUSES}])[c.rank + 1] AS status, c.groups, c.waiting, c.oldest_at
    FROM (
      SELECT g.queue_id, s.rank, count(*) AS groups, count(*) FILTER (WHERE s.last >= {_PENDING}) AS waiting,
             min(g.submitted_at) FILTER (WHERE s.last >= {_PENDING}) AS oldest_at
      FROM (SELECT group_id, min(rank) AS rank, max(rank) AS last FROM (
              SELECT group_id, CASE status {_RANKS} END AS rank FROM units WHERE ended_at IS NULL
            ) unit GROUP BY group_id) s
      JOIN groups g ON g.id = s.group_id GROUP BY g.queue_id, s.rank
    ) c JOIN queues q ON q.id = c.queue_id
""")  # noqa: S608
