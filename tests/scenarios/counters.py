"""The counters of the vocabulary, each computed as its page says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from service.domain.status import Cause
from tests.scenarios.scenario import Map

if TYPE_CHECKING:
    from tests.scenarios.stage import Stage

_OUR_OWN_RESOURCES = ("cpus", "memory")


def value(stage: Stage, counter: Map) -> int:
    return COUNTERS[counter["counter"]](stage, counter)


def _of_group(stage: Stage, counter: Map, name: str) -> bool:
    return "group" not in counter or name in stage.scenario.members_of(str(counter["group"]))


def used_gpus(stage: Stage, counter: Map) -> int:
    total = 0
    for held in stage.books.held():
        if counter.get("queue", held.queue) != held.queue:
            continue
        for _, _, node, devices in held.places:
            if counter.get("node", node) == node:
                total += sum(counter.get("flavor", stage.model(node)) == stage.model(node) for _ in devices)
    return total


def held_gpus(stage: Stage, counter: Map) -> int:
    return sum(
        _of_group(stage, counter, group) and counter.get("node", node) == node
        for (node, _), group in stage.ledger_holders().items()
    )


def free_gpus(stage: Stage, counter: Map) -> int:
    return sum(_matches(stage, counter, node) for node, _ in stage.ledger_free())


def capacity_gpus(stage: Stage, counter: Map) -> int:
    return sum(_matches(stage, counter, node) for node, _ in stage.ledger_devices())


def _matches(stage: Stage, counter: Map, node: str) -> bool:
    model = stage.model(node)
    return bool(counter.get("node", node) == node and counter.get("flavor", model) == model)


def borrowed_gpus(stage: Stage, counter: Map) -> int:
    answer = stage.queue_answer(counter["queue"])
    nominal = answer["nominal_quota"] or {}
    flavors = [counter["flavor"]] if "flavor" in counter else stage.flavors()
    used = {flavor: used_gpus(stage, {"queue": counter["queue"], "flavor": flavor}) for flavor in flavors}
    return sum(max(0, used[flavor] - nominal.get(flavor, 0)) for flavor in flavors)


def demand_gpus(stage: Stage, counter: Map) -> int:
    demanded: Map = stage.queue_answer(counter["queue"])["demanded"]
    return sum(
        amount
        for name, amount in demanded.items()
        if name not in ("cpus", "memory_gib") and counter.get("flavor", name) == name
    )


def claimed_gpus(stage: Stage, counter: Map) -> int:
    answers = [stage.group_answer(name) for name in stage.scenario.members_of(counter["group"])]
    return sum((answer.get("claim") or {}).get("gpus", 0) for answer in answers)


def wanted_members(stage: Stage, counter: Map) -> int:
    return _sum_of_answers(stage, counter, "wanted_members")


def present_members(stage: Stage, counter: Map) -> int:
    return _sum_of_answers(stage, counter, "present_members")


def nodes_held(stage: Stage, counter: Map) -> int:
    held = [held for held in stage.books.held() if _of_group(stage, counter, held.group)]
    return len({node for each in held for node in each.gpus})


def succeeded_members(stage: Stage, counter: Map) -> int:
    return _sum_of_answers(stage, counter, "succeeded_members")


def dispatches(stage: Stage, counter: Map) -> int:
    return _sum_of_answers(stage, counter, "dispatches")


def _sum_of_answers(stage: Stage, counter: Map, field: str) -> int:
    return sum(stage.group_answer(name)[field] for name in stage.scenario.members_of(counter["group"]))


def live_members(stage: Stage, counter: Map) -> int:
    return sum(_of_group(stage, counter, member.group) for member in stage.launcher.live())


def launched_members(stage: Stage, counter: Map) -> int:
    return stage.launcher.launched(_groups(stage, counter), _since(counter))


def stopped_members(stage: Stage, counter: Map) -> int:
    return stage.launcher.stopped(_groups(stage, counter), _since(counter))


def _groups(stage: Stage, counter: Map) -> list[str] | None:
    return stage.scenario.members_of(counter["group"]) if "group" in counter else None


def _since(counter: Map) -> int:
    return int(counter.get("since", 0))


def _events(stage: Stage, counter: Map, kind: str) -> list[Map]:
    rows = stage.books.events(kind, since=stage.marker(_since(counter))["events"])
    return [row for row in rows if _of_group(stage, counter, row["group"])]


def admissions(stage: Stage, counter: Map) -> int:
    return len(_events(stage, counter, "Admitted"))


def evictions(stage: Stage, counter: Map) -> int:
    return sum(row["cause"] != Cause.CANCELLED for row in _events(stage, counter, "Evicting"))


def preemptions(stage: Stage, counter: Map) -> int:
    return sum(row["cause"] == Cause.PREEMPTED for row in _events(stage, counter, "Evicting"))


def successes(stage: Stage, counter: Map) -> int:
    return len(_events(stage, counter, "Succeeded"))


def attempt(stage: Stage, counter: Map) -> int:
    return _of_unit(stage, counter, "attempt")


def generation(stage: Stage, counter: Map) -> int:
    return _of_unit(stage, counter, "generation")


def _of_unit(stage: Stage, counter: Map, field: str) -> int:
    if "member" not in counter:
        return int(stage.group_answer(counter["group"])[field])
    [member] = [m for m in stage.member_answers(counter["group"]) if m["member"] == counter["member"]]
    return int(member[field])


def position(stage: Stage, counter: Map) -> int:
    answer = stage.position_answer(counter["group"])
    assert answer["position"] is not None, f"{counter['group']} has no position"
    return int(answer["position"])


def reasons(stage: Stage, counter: Map) -> int:
    """The largest over the groups that the name stands for, so that `is: 1` holds for each."""
    counts = {len(stage.reasons(name)) for name in stage.scenario.members_of(counter["group"])}
    assert len(counts) == 1, f"{counter['group']}: the groups show different numbers of reasons: {counts}"
    return counts.pop()


def groups(stage: Stage, counter: Map) -> int:
    statuses = [
        status
        for name, status in stage.statuses().items()
        if counter.get("queue") in (None, stage.queue_of(name))
    ]
    return sum(status == counter["status"] for status in statuses)


def peak_held_gpus(stage: Stage, counter: Map) -> int:
    peaks = stage.ledger_peaks(_since(counter))
    if "group" not in counter:
        return max((sum(held.values()) for held in peaks), default=0)
    return max(
        (sum(n for group, n in held.items() if _of_group(stage, counter, group)) for held in peaks), default=0
    )


def peak_live_gpus(stage: Stage, counter: Map) -> int:
    return stage.launcher.peak_live_gpus(counter["node"], _since(counter))


COUNTERS: dict[str, Callable[[Stage, Map], int]] = {
    counter.__name__: counter
    for counter in (
        used_gpus, held_gpus, free_gpus, capacity_gpus, borrowed_gpus, demand_gpus, claimed_gpus,
        wanted_members, succeeded_members, live_members, launched_members, stopped_members, dispatches,
        admissions, evictions, preemptions, successes, attempt, generation, position, reasons, groups,
        peak_held_gpus, peak_live_gpus, present_members, nodes_held,
    )
}  # fmt: skip
