"""The order of a queue in SQL, where `q` is the queue of the group."""

from __future__ import annotations

from service.admission.waiting.ranks import BALANCED_PART, ENDLESS, MOST_SECONDS


def length_of(group: str) -> str:
    """What comes between priority and age, of `g` or another name of groups in a query: as the planner's
    `ranks.length_of`."""
    limit = f"COALESCE({group}.time_limit_seconds, {ENDLESS})::bigint"
    return (
        "CASE q.policy ->> 'order_by'"
        f" WHEN 'shortest' THEN {limit}"
        f" WHEN 'balanced' THEN floor(extract(epoch FROM {group}.submitted_at))::bigint"
        f" + LEAST({limit} / {BALANCED_PART}, {MOST_SECONDS}) ELSE 0 END"
    )
