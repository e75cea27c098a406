"""Rules that hold after every step of every file, without being written down (INDEX, section 9)."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from service.inventory.verdicts import read_queue
from tests.scenarios.scenario import Map

if TYPE_CHECKING:
    from tests.scenarios.stage import Stage

_ENDED = ("Succeeded", "Failed", "Cancelled")


def check_all(stage: Stage) -> None:
    """Assert rules (a) to (e) and (g); (f) is asserted after a cycle that its worker led."""
    units_hold_whole_or_nothing(stage)
    devices_have_one_holder(stage)
    if stage.books_must_agree():
        stores_name_the_same_holders(stage)
        audit_is_clean(stage)
    ended_groups_stay_ended(stage)
    queues_keep_their_limits(stage)
    nodes_are_not_overrun(stage)
    answers_are_sane(stage)


def units_hold_whole_or_nothing(stage: Stage) -> None:
    for held in stage.books.held():
        roles = stage.submitted[held.group]["roles"]
        if stage.submitted[held.group].get("scheduling") == "independent":
            assert len(held.places) == 1, held
            continue
        placed = Counter(role for _, role, _, _ in held.places)
        for position, role in enumerate(roles):
            least = role.get("min_count", role.get("count", 1))
            assert placed[position] >= least, f"{held.group} holds {placed[position]} of {least}"


def devices_have_one_holder(stage: Stage) -> None:
    seats = [
        (node, device)
        for held in stage.books.held()
        for _, _, node, devices in held.places
        for device in devices
    ]
    assert len(seats) == len(set(seats)), "a device has two holders in PostgreSQL"
    held, lost = set(stage.ledger_holders()), stage.ledger_lost()
    free, capacity = set(stage.ledger_free()), set(stage.ledger_devices())
    for node in stage.nodes:
        on = {
            name: {key for key in keys if key[0] == node}
            for name, keys in {"h": held, "l": lost, "f": free}.items()
        }
        everything = {key for key in capacity if key[0] == node}
        assert len(on["h"]) + len(on["l"] - on["h"]) + len(on["f"]) == len(everything), f"{node}: {on}"


def stores_name_the_same_holders(stage: Stage) -> None:
    books = {
        (node, device): held.group
        for held in stage.books.held()
        for _, _, node, devices in held.places
        for device in devices
    }
    assert books == stage.ledger_holders()


def audit_is_clean(stage: Stage) -> None:
    audit = stage.get("/v1/inventory/audit")
    assert audit.status_code == 200, audit.text
    assert audit.json()["is_clean"], audit.text


def ended_groups_stay_ended(stage: Stage) -> None:
    statuses = stage.statuses()
    holding = {held.group for held in stage.books.held()}
    living = {member.group for member in stage.launcher.live()}
    for name, status in statuses.items():
        if status in _ENDED:
            assert name not in holding, f"{name} is {status} and holds places"
            assert name not in living, f"{name} is {status} and has live members"
        before = stage.ended.get(name)
        assert before in (None, status), f"{name} was {before} and is {status}"
    stage.ended |= {name: status for name, status in statuses.items() if status in _ENDED}


def queues_keep_their_limits(stage: Stage) -> None:
    """No admission takes a queue over what its quota was: lowered limits evict nobody, so a queue
    may stand above, but not have grown there since the last step."""
    used: dict[str, Counter[str]] = {}
    for held in stage.books.held():
        used.setdefault(held.queue, Counter()).update(held.usage)
    for queue, amounts in used.items():
        ceilings = stage.ceilings(queue)
        for flavor in stage.flavors():
            if (ceiling := ceilings.get(flavor)) is not None:
                grew = amounts[flavor] > stage.used_before.get(queue, Counter())[flavor]
                assert amounts[flavor] <= ceiling or not grew, (
                    f"{queue}: {amounts[flavor]} of {ceiling} {flavor}"
                )
    cohorts_keep_their_quota(stage, used)
    stage.used_before = used


def cohorts_keep_their_quota(stage: Stage, used: dict[str, Counter[str]]) -> None:
    """Together the queues below a cohort hold at most all that it has, and what it may borrow from the
    cohort that it is in."""
    for cohort in stage.scenario.cohorts():
        answer, queues = stage.cohort_answer(cohort["name"]), stage.queues_below(cohort["name"])
        borrowing = answer["borrowing_limit"] if answer["parent"] else dict.fromkeys(stage.flavors(), 0)
        for flavor in stage.flavors():
            now = sum(used.get(queue, Counter())[flavor] for queue in queues)
            before = sum(stage.used_before.get(queue, Counter())[flavor] for queue in queues)
            most = answer["total_quota"].get(flavor, 0) + borrowing.get(flavor, math.inf)
            assert now <= max(before, most), f"{cohort['name']}: {now} of {most} {flavor}"


def nodes_are_not_overrun(stage: Stage) -> None:
    used: dict[str, Counter[str]] = {}
    for member in stage.launcher.live():
        amounts = {"gpus": member.gpus, "cpus_milli": member.cpus_milli, "memory_mib": member.memory_mib}
        used.setdefault(member.node, Counter()).update(amounts)
    for node, amounts in used.items():
        room = stage.room(node)
        assert all(amounts[name] <= room[name] for name in room), f"{node}: {amounts} of {room}"


#: So many waiting groups of each queue are asked over HTTP after each cycle; of the others the
#: published value is read, from which the API renders its answers.
_ASKED = 5


def every_pending_group_has_a_reason(stage: Stage, seen: set[int]) -> None:
    """Rule (f): after a cycle that its worker led. `seen`: rows that waited when it ended."""
    by_queue: dict[int, list[Map]] = {}
    for row in stage.books.units():
        if row["status"] == "Pending":
            by_queue.setdefault(row["queue_id"], []).append(row)
    for queue_id, rows in by_queue.items():
        _are_explained(stage, queue_id, [row for row in rows if row["id"] in seen])
        for name in sorted({row["group"] for row in rows[:_ASKED] + rows[-_ASKED:]}):
            shown = stage.reasons(name)
            assert shown, f"{name} waits without a reason"
            for reason in shown:
                stage.family(reason["code"])


def _are_explained(stage: Stage, queue_id: int, rows: list[Map]) -> None:
    published = read_queue(stage.redis, queue_id)
    assert published is not None, "a queue with waiting groups was never published"
    verdicts = {waiting.unit_id: waiting for waiting in published.order()}
    for row in rows:
        waiting = verdicts.get(row["id"])
        has_own_reason = (
            row["is_held"] or row["backoff_until"] or row["open_dependencies"] or row["not_before_at"]
        )
        # What came back to the queue in the pass after the cycle is not in the order yet.
        is_explained = waiting is not None and bool(published.verdicts[waiting.verdict])
        assert is_explained or has_own_reason, f"{row['group']} has no verdict"


def answers_are_sane(stage: Stage) -> None:
    """Rule (g): no answer is a 5xx, and no number in it is negative. Times and ids are text."""
    for response in stage.new_responses():
        assert response.status_code < 500, response.text
        if "json" in response.headers.get("content-type", ""):
            _no_negative(json.loads(response.text), response.text)


def _no_negative(value: Any, text: str) -> None:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        assert value >= 0, f"a negative number in {text}"
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key != "priority":
                _no_negative(inner, text)
    elif isinstance(value, list):
        for inner in value:
            _no_negative(inner, text)


def check_block(stage: Stage, block: Map) -> None:
    """One block of `right`: who is admitted, who waits and why, and statuses."""
    if "admitted" in block:
        check_admitted(stage, block["admitted"])
    if "pending" in block:
        check_pending(stage, block["pending"])
    for name, statuses in block.get("status", {}).items():
        for group in stage.scenario.members_of(name):
            assert stage.statuses()[group] in statuses, f"{group} is {stage.statuses()[group]}"


def check_admitted(stage: Stage, admitted: Map) -> None:
    held: dict[str, Counter[str]] = {}
    for entry in stage.books.held():
        held.setdefault(entry.group, Counter()).update(entry.gpus)
    wanted = {group: places for name, places in admitted.items() for group in stage.scenario.members_of(name)}
    assert set(held) == set(wanted), f"admitted are {sorted(held)}, not {sorted(wanted)}"
    for group, places in wanted.items():
        if "any" in places:
            assert sum(held[group].values()) == places["any"], f"{group}: {dict(held[group])}"
        else:
            assert dict(held[group]) == places, f"{group}: {dict(held[group])}"


def check_pending(stage: Stage, pending: Map) -> None:
    wanted = {
        group: families for name, families in pending.items() for group in stage.scenario.members_of(name)
    }
    assert stage.pending() == set(wanted), f"pending are {sorted(stage.pending())}, not {sorted(wanted)}"
    for group, families in wanted.items():
        shown = stage.reasons(group)
        assert shown, f"{group} waits without a reason"
        assert stage.family(shown[0]["code"]) in families, f"{group}: {shown}"
