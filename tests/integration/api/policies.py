"""Random policies, as a file says them. Most are sound; some break a rule."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from service.domain.principal import KeyRole
from service.domain.queue import Filling, Order, OrderBy, PreemptWithin, Reclaim, Stop

FLAVORS = ("H100-80GB", "A100 80GB", "ä:1", "on", "null", "1e3")
_COHORTS = ("org", "lab", "team", "null")
_QUEUES = ("research", "prod", "42", "yes", "default")

_gpus = st.dictionaries(st.sampled_from(FLAVORS), st.integers(0, 9), max_size=3)
_broken = st.integers(0, 100_000).map(lambda thousandths: thousandths / 1024)
amounts = st.tuples(
    _gpus,
    st.dictionaries(st.just("cpus"), st.integers(0, 9_000).map(lambda milli: milli / 1000)),
    st.dictionaries(st.just("memory_gib"), _broken),
).map(lambda parts: {name: amount for part in parts for name, amount in part.items()})
durations = st.sampled_from(["90s", "10m", "1h30m", "2d"]) | st.integers(1, 1_000_000)
weights = st.integers(0, 5) | st.floats(0, 1e9, allow_nan=False)
priorities = st.integers(-1_000_000, 1_000_000)


def _some(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


def cohort(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return _some(
        {"name": st.just(name)},
        {
            "parent": st.sampled_from(_COHORTS),
            "weight": weights,
            "nominal_quota": amounts,
            "borrowing_limit": amounts,
            "lending_limit": amounts,
        },
    )


def queue(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return _some(
        {"name": st.just(name)},
        {
            "tenant": st.sampled_from(["blue", "red"]),
            "cohort": st.sampled_from(_COHORTS),
            "weight": weights,
            "order": st.sampled_from([each.value for each in Order]),
            "order_by": st.sampled_from([each.value for each in OrderBy]),
            "stop": st.sampled_from([each.value for each in Stop]),
            "nominal_quota": amounts,
            "borrowing_limit": amounts,
            "lending_limit": amounts,
            "limit": amounts,
            "user_limit": amounts,
            "group_limit": amounts,
            "flavors": st.lists(st.sampled_from(FLAVORS), max_size=3),
            "pools": st.lists(st.sampled_from(["p1", "p2"]), max_size=3),
            "filling": st.sampled_from([each.value for each in Filling]),
            "preempt_within": st.sampled_from([each.value for each in PreemptWithin]),
            "reclaim": st.sampled_from([each.value for each in Reclaim]),
            "min_runtime": durations,
            "evictions_per_day": st.integers(1, 10),
            "highest_priority": st.dictionaries(
                st.sampled_from([each.value for each in KeyRole]), priorities, max_size=3
            ),
            "default_time_limit": durations,
            "max_time_limit": durations,
        },
    )


def _subset(names: tuple[str, ...], make: Any) -> st.SearchStrategy[list[dict[str, Any]]]:
    chosen = st.lists(st.sampled_from(names), unique=True)
    return chosen.flatmap(lambda found: st.tuples(*map(make, found))).map(list)


def _entry(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return _some({"name": st.just(name), "value": priorities}, {})


scheduling = st.fixed_dictionaries(
    {"guard": st.integers(1, 1_000_000)},
    optional={
        "reserve_depth": st.integers(0, 9) | st.just("all"),
        "half_life": durations,
        "restart_cost": durations,
        "lost_work_cap": durations,
        "fair_share_price": st.integers(0, 9) | st.just("none"),
        "reclaim_delay": durations,
        "resize_interval": durations,
    },
)

policies = st.fixed_dictionaries(
    {
        "priority_classes": _subset(("high", "low", "y", "null"), _entry),
        "cohorts": _subset(_COHORTS, cohort),
        "queues": _subset(_QUEUES, queue),
    },
    optional={"scheduling": scheduling},
)


def mended(policy: dict[str, Any]) -> dict[str, Any]:
    """The same without what would break a rule of the tree."""
    names: list[str] = []
    cohorts = []
    for each in policy["cohorts"]:
        has_parent = each.get("parent") in names
        left_out = set() if has_parent else {"parent", "borrowing_limit", "lending_limit"}
        cohorts.append({key: value for key, value in each.items() if key not in left_out})
        names.append(each["name"])
    return policy | {"cohorts": cohorts, "queues": [_mended_queue(each, names) for each in policy["queues"]]}


def _mended_queue(queue: dict[str, Any], cohorts: list[str]) -> dict[str, Any]:
    queue = dict(queue)
    if queue.get("cohort") not in cohorts:
        for field in ("cohort", "borrowing_limit", "lending_limit"):
            queue.pop(field, None)
    else:
        nominal = queue.setdefault("nominal_quota", {})
        lending = queue.get("lending_limit", {})
        queue["lending_limit"] = {key: min(amount, nominal.get(key, 0)) for key, amount in lending.items()}
    nominal = queue.get("nominal_quota", {})
    if "limit" in queue:
        queue["limit"] = {key: max(amount, nominal.get(key, 0)) for key, amount in queue["limit"].items()}
    if "default_time_limit" in queue:
        queue.pop("max_time_limit", None)
    return queue
