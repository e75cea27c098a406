"""What a scenario says of cohorts, queues and groups, as the API takes it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from tests.scenarios.scenario import Map

#: Fields that have another name on the wire than in a file; all others have the same.
_OF_QUEUE = {
    "min_runtime_seconds": "min_runtime",
    "default_time_limit_seconds": "default_time_limit",
    "max_time_limit_seconds": "max_time_limit",
}


def queue_body(queue: Map) -> Map:
    """In these files a queue without quota has none of any flavor."""
    return {"nominal_quota": {}} | {_OF_QUEUE.get(name, name): value for name, value in queue.items()}


def group_body(
    fields: Map, name: str, *, id_of: Callable[[str], str], instant: Callable[[float], datetime]
) -> Map:
    """Times that a file does not name are off, as its page says."""
    body: Map = {"name": name, "queue": fields["queue"], "start_timeout": None}
    for field in ("scheduling", "priority", "topology", "preemptible"):
        if field in fields:
            body[field] = fields[field]
    if "time_limit_seconds" in fields:
        body["time_limit"] = fields["time_limit_seconds"]
    if "elastic" in fields:
        body["elastic"] = {"resize": fields["elastic"]}
    if "after" in fields:
        body["after"] = [entry | {"group": id_of(entry["group"])} for entry in fields["after"]]
    if "not_before_at" in fields:
        body["not_before"] = instant(fields["not_before_at"]).isoformat()
    body["checkpoint"] = {"grace": fields.get("grace_seconds", 0)}
    body["recovery"] = {
        "max_restarts": fields.get("max_restarts", 3),
        "backoff": fields.get("backoff_seconds", 0),
        "seat_timeout": fields.get("seat_timeout_seconds", 600),
    }
    body["roles"] = [_role_body(role) for role in fields["roles"]]
    return body


def _role_body(role: Map) -> Map:
    """CPUs and memory that a file does not name: one of each for each GPU, at least one."""
    gpus = role["gpus"]
    requests = {
        "gpus": gpus,
        "cpus": role.get("cpus", max(1, gpus)),
        "memory_gib": role.get("memory_gib", max(1, gpus)),
    }
    body: Map = {
        "name": role.get("name", "worker"),
        "count": role.get("count", 1),
        "requests": requests,
        "command": ["simulate"],
    }
    for field in ("min_count", "node_labels", "slice"):
        if field in role:
            body[field] = role[field]
    if "models" in role:
        body["gpu"] = {"models": role["models"], "fallback_after": role.get("fallback_seconds", 0)}
    return body
