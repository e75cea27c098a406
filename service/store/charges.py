"""What closed attempts are charged with: the integral of what they held, and how much of it counts yet."""

from __future__ import annotations

from service.domain.status import NOT_CHARGED

#: After so many half-lives nothing counts, and less than so many amount-seconds is nothing: PostgreSQL
#: refuses what is too small for it.
_NEVER, _NOTHING = 50, "1e-9"


def decayed(amount: str, seconds: str, *, half_life: str) -> str:
    """What is left of an amount after so many seconds; 0 without a half-life. All are SQL expressions."""
    return (
        f"CASE WHEN ({half_life}) <= 0 OR ({amount}) < {_NOTHING}"
        f" OR ({seconds}) >= {_NEVER} * ({half_life}) THEN 0"
        f" ELSE ({amount}) * power(2::float8, -GREATEST(0, {seconds}) / NULLIF({half_life}, 0)) END"
    )


def seconds_between(earlier: str, later: str) -> str:
    return f"GREATEST(0, extract(epoch FROM {later} - {earlier})::float8)"


def charges_of(attempts: str, *, half_life: str) -> str:
    """A query: for each resource of each attempt in `attempts`, a relation of (unit_id, attempt), what it
    held, what of that was lost, and what of the rest counts at `ended_at`, all in amount times seconds.

    An amount a that was held for d seconds counts a * (1 - 2^(-d/h)) * h / ln 2 at its end. An attempt
    whose places changed held each set for its own while: they are put into one list, for a UNION ALL below
    a LATERAL, beside an ARRAY of a sub-select, ends the server (PostgreSQL 18).
    """
    lived, since = seconds_between("s.began_at", "s.ended_at"), seconds_between("s.ended_at", "c.ended_at")
    not_charged = ", ".join(f"'{cause}'" for cause in NOT_CHARGED)
    counts = decayed(
        f"({half_life}) / ln(2::float8) * (1 - {decayed('1', lived, half_life=half_life)})",
        since,
        half_life=half_life,
    )
    return f"""
      SELECT c.unit_id, c.attempt, c.queue_id, g.tenant, g.owner, u.resource, c.ended_at,
        sum(u.amount::float8 * {lived}) AS held_seconds,
        sum(CASE WHEN c.cause IN ({not_charged}) THEN u.amount::float8 * {lived} ELSE 0 END) AS lost_seconds,
        sum(CASE WHEN c.cause IN ({not_charged}) THEN 0 ELSE u.amount::float8 * {counts} END)
          AS decayed_seconds
      FROM ({attempts}) t
      JOIN closed_attempts c ON c.unit_id = t.unit_id AND c.attempt = t.attempt
      JOIN groups g ON g.id = c.group_id
      CROSS JOIN LATERAL jsonb_to_recordset(
        COALESCE(c.held_before, '[]') || jsonb_build_array(jsonb_build_object(
          'usage', c.usage, 'ended_at', c.ended_at,
          'began_at', COALESCE((c.held_before -> -1 ->> 'ended_at')::timestamptz, c.admitted_at)))
      ) AS s (usage jsonb, began_at timestamptz, ended_at timestamptz)
      CROSS JOIN LATERAL jsonb_each_text(s.usage) AS u (resource, amount)
      WHERE u.amount <> '0'
      GROUP BY c.unit_id, c.attempt, c.queue_id, g.tenant, g.owner, u.resource, c.ended_at
    """  # noqa: S608
