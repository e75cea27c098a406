"""Which features of the scenario vocabulary are built. The list of what is not can only shrink."""

from __future__ import annotations

#: Every feature that a scenario may need.
ALL = frozenset(
    [
        "gangs",
        "independent",
        "batch",
        "strict",
        "positions",
        "models",
        "node_labels",
        "cpu_memory",
        "pools",
        "topology_required",
        "topology_preferred",
        "elastic",
        "quotas",
        "queue_changes",
        "cohorts",
        "fair_share",
        "priority_preemption",
        "reclaim",
        "fair_share_preemption",
        "backfill",
        "guard",
        "restart_group",
        "node_health",
        "cordon",
        "drain",
        "cancel",
        "time_limit",
        "dispatch_backoff",
        "holds",
        "dependencies",
        "stop_policies",
        "dry_run",
        "restart",
        "launcher_outage",
        "fencing",
        "quiet_cycles",
        "users",
        "keys",
        "bad_input",
        "pooled_connections",
        "secrets",
        "nested_cohorts",
        "queue_limits",
        "protection",
        "slices",
        "filling",
        "half_life",
        "not_before",
        "group_changes",
    ]
)

NOT_BUILT: frozenset[str] = frozenset()

BUILT = ALL - NOT_BUILT


def missing(needs: list[str]) -> list[str]:
    """The needed features that are not built, in the order of the file."""
    return [feature for feature in needs if feature not in BUILT]
