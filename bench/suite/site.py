"""What a workload needs of a stack: its nodes as they are declared, its queues as `muster apply` takes
them, and its groups as they are submitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.suite.workloads import RACK, Stream, Workload

LEVELS = f"block,{RACK},host"


def declared_nodes(workload: Workload) -> str:
    """As `muster up --nodes` takes them."""
    shape = f"0:cpus={workload.node_cpus},memory={workload.node_memory_gib}GiB"
    if not workload.racks:
        return f"{workload.nodes}x{shape}"
    each = workload.nodes // workload.racks
    racks = range(1, workload.racks + 1)
    return " ".join(f"{each}x{shape},label=block=b1,label={RACK}=r{rack}" for rack in racks)


def policy_of(workload: Workload, *, has_preemption: bool) -> dict[str, Any]:
    """Cohorts that own nothing themselves; each queue lends all that it has."""
    queues = list(workload.queue_names())
    return {
        "cohorts": [{"name": name} for name in dict.fromkeys(cohort for cohort, _ in queues)],
        "queues": [
            {
                "name": queue,
                "cohort": cohort,
                "nominal_quota": {"cpus": workload.quota_cpus},
                "borrowing_limit": {"cpus": workload.borrowing_cpus},
                "preempt_within": "lower_priority" if has_preemption else "never",
                "reclaim": "any" if has_preemption else "never",
            }
            for cohort, queue in queues
        ],
    }


def group_body(stream: Stream, queue: str, number: int) -> Mapping[str, object]:
    """A balanced group prefers the rack, with its slices each in one: how evenly nodes are used is a
    setting of queues, not of groups."""
    body: dict[str, object] = {
        "name": f"{queue}-{stream.kind}-{number}",
        "queue": queue,
        "priority": stream.priority,
        "members": stream.members,
        "cpus": stream.cpus_milli / 1000,
        "command": ["simulate", "--seconds", f"{stream.runtime_ms / 1000:.3f}"],
        "labels": {"class": stream.kind},
    }
    if stream.level:
        body["topology"] = {"required" if stream.level == "required" else "preferred": RACK}
    if stream.level and stream.slice_size > 1:
        body["slice"] = {"level": RACK, "size": stream.slice_size}
    return body
