"""The checks of the vocabulary. Each asserts; what it says is the message of the failure."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.scenarios.counters import used_gpus
from tests.scenarios.scenario import Map

if TYPE_CHECKING:
    from tests.scenarios.stage import Stage


def check(stage: Stage, entry: Map) -> None:
    CHECKS[entry["check"]](stage, entry)


def answer(stage: Stage, entry: Map) -> None:
    for response in stage.answers[entry["step"]]:
        outcome = "accepted" if response.status_code < 300 else "refused"
        assert outcome in entry["in"], f"step {entry['step']} was {outcome}: {response.text}"
        if "http" in entry:
            assert response.status_code in entry["http"], response.text
        for name in entry.get("names", []):
            fields = [error["field"] for error in response.json().get("errors", [])]
            assert any(name in field for field in fields), f"no error names {name}: {response.text}"


def same_answer(stage: Stage, entry: Map) -> None:
    seen = {
        (response.status_code, response.json().get("type"), response.json().get("title"))
        for step in entry["steps"]
        for response in stage.answers[step]
    }
    assert len(seen) == 1, seen


def queue_has(stage: Stage, entry: Map) -> None:
    response = stage.get(f"/v1/queues/{entry['queue']}")
    assert (response.status_code == 200) == entry["exists"], response.text
    if not entry["exists"]:
        assert response.status_code == 404, response.text
    for field in ("nominal_quota", "limit"):
        if field in entry:
            assert response.json()[field] == entry[field], response.text


def reason_has(stage: Stage, entry: Map) -> None:
    for name in stage.scenario.members_of(entry["group"]):
        shown = stage.reasons(name)
        assert any(_is_reason(stage, reason, entry) for reason in shown), f"{name}: no such reason in {shown}"


def _is_reason(stage: Stage, reason: Map, entry: Map) -> bool:
    wanted = [
        stage.family(reason["code"]) in entry["families"],
        entry.get("code", reason["code"]) == reason["code"],
        entry.get("need", reason.get("need")) == reason.get("need"),
        entry.get("limit", reason.get("limit")) == reason.get("limit"),
        entry.get("flavor") in (None, reason.get("scope", {}).get("flavor")),
        "holder" not in entry or stage.public_id(entry["holder"]) in reason.get("holders", []),
        entry.get("text", "") in reason["message"],
        "until" not in entry or _until(stage, reason) == entry["until"],
        entry.get("scope", {}).items() <= reason.get("scope", {}).items(),
    ]
    return all(wanted)


def _until(stage: Stage, reason: Map) -> float | None:
    until = reason.get("scope", {}).get("until")
    return None if until is None else stage.seconds(until)


def refused_or_pending(stage: Stage, entry: Map) -> None:
    if entry["group"] not in stage.ids:
        responses = [r for step in stage.submits_of(entry["group"]) for r in stage.answers[step]]
        assert all(400 <= response.status_code < 500 for response in responses)
        return
    assert stage.statuses()[entry["group"]] == "Pending"
    first = stage.reasons(entry["group"])[0]
    assert stage.family(first["code"]) in entry["families"], first


def members(stage: Stage, entry: Map) -> None:
    indexes = sorted(
        m["member"] for m in stage.member_answers(entry["group"]) if m["status"] == entry["status"]
    )
    if "are" in entry:
        assert indexes == sorted(entry["are"]), f"{entry['status']}: {indexes}"
    else:
        assert len(indexes) == entry["count"], f"{entry['status']}: {indexes}"


def cause(stage: Stage, entry: Map) -> None:
    for name in stage.scenario.members_of(entry["group"]):
        assert stage.group_answer(name)["cause"] == entry["is"], stage.group_answer(name)


def would(stage: Stage, entry: Map) -> None:
    [response] = stage.answers[entry["step"]]
    if 400 <= response.status_code < 500:
        assert "refuse" in entry["in"], response.text
        return
    said = response.json()
    assert said["would"] in entry["in"], said
    if said["would"] == "wait" and "families" in entry:
        assert stage.family(said["reasons"][0]["code"]) in entry["families"], said


def listed(stage: Stage, entry: Map) -> None:
    names = entry["groups"]
    wanted = stage.scenario.members_of(names) if isinstance(names, str) else names
    shown = stage.waiting(entry["queue"])
    assert [item["name"] for item in shown] == wanted
    assert [item["position"] for item in shown] == list(range(1, len(wanted) + 1))


def planned_start(stage: Stage, entry: Map) -> None:
    start = stage.position_answer(entry["group"]).get("planned_start_at")
    assert (None if start is None else stage.seconds(start)) in entry["at"], start


def planned_starts_in_future(stage: Stage, _: Map) -> None:
    for name, status in stage.statuses().items():
        if status == "Pending":
            start = stage.position_answer(name).get("planned_start_at")
            assert start is None or stage.seconds(start) > stage.at, f"{name}: {start}"


def admitted_in_order(stage: Stage, entry: Map) -> None:
    names = entry["groups"]
    wanted = stage.scenario.members_of(names) if isinstance(names, str) else names
    first = [stage.first_admission_cycle(name) for name in wanted]
    assert None not in first, f"not all were admitted: {dict(zip(wanted, first, strict=True))}"
    assert first == sorted(first, key=lambda cycle: cycle or 0), dict(zip(wanted, first, strict=True))


def stopped_before_started(stage: Stage, entry: Map) -> None:
    last_gone = stage.launcher.last_gone(stage.scenario.members_of(entry["stopped"]))
    first_start = stage.launcher.first_start(stage.scenario.members_of(entry["started"]))
    assert last_gone is not None, f"{entry['stopped']} is not gone"
    assert first_start is not None, f"{entry['started']} was not started"
    assert last_gone < first_start, f"gone as number {last_gone}, started as number {first_start}"


def victims_in_distinct_queues(stage: Stage, entry: Map) -> None:
    first, last = stage.marker(entry["step"] - 1)["events"], stage.marker(entry["step"])["events"]
    rows = [row for row in stage.books.events("Evicting", since=first) if row["id"] <= last]
    queues = [stage.queue_of(row["group"]) for row in rows if row["cause"] == "Preempted"]
    assert len(queues) >= 2, queues
    assert len(set(queues)) == len(queues), queues


def sorted_used(stage: Stage, entry: Map) -> None:
    assert sorted(used_gpus(stage, {"queue": queue}) for queue in entry["queues"]) == entry["is"]


def stable(stage: Stage, entry: Map) -> None:
    pictures = stage.pictures[entry["step"]][-(entry["cycles"] + 1) :]
    assert len(pictures) == entry["cycles"] + 1, f"the step has only {len(pictures) - 1} repetitions"
    for before, after in pairwise(pictures):
        assert before == after


def writes(stage: Stage, entry: Map) -> None:
    if entry["table"] == "reasons":
        written = stage.published_since(entry["since"])
    else:
        names = stage.scenario.members_of(entry["group"]) if "group" in entry else None
        written = stage.books.writes(
            entry["table"], since=stage.marker(entry["since"])["writes"], groups=names
        )
    assert written <= entry["max"], f"{written} writes to {entry['table']}"


def same_attempt(stage: Stage, entry: Map) -> None:
    for name in stage.scenario.members_of(entry["group"]):
        attempts = {row["index"]: row["attempt"] for row in stage.books.units() if row["group"] == name}
        gang = stage.group_answer(name)["scheduling"] == "gang"
        for member in stage.launcher.live():
            if member.group == name:
                assert member.attempt == attempts[0 if gang else member.index], member


def launched_only_on(stage: Stage, entry: Map) -> None:
    sent = [str(launch) for launch in stage.launcher.sent(entry["group"], entry["attempt"])]
    assert sent, "nothing was sent to a launcher"
    pools = {stage.pool(node) for node in entry["nodes"]}
    others = set(stage.nodes) - set(entry["nodes"]) | set(stage.pools()) - pools
    for text in sent:
        named = {name for name in others if f"'{name}'" in text}
        assert not named, f"{named} in {text}"
    nodes = {launch.node for launch in stage.launcher.sent(entry["group"], entry["attempt"])}
    assert nodes == set(entry["nodes"]), nodes


def never_status(stage: Stage, entry: Map) -> None:
    for name in stage.scenario.members_of(entry["group"]):
        had = {row["kind"] for row in stage.books.events(*entry["in"]) if row["group"] == name}
        assert not had, f"{name} was {had}"
        assert stage.statuses()[name] not in entry["in"]


def lost_nodes(stage: Stage, entry: Map) -> None:
    names = {row["id"]: row["name"] for row in stage.books.rows("SELECT id, name FROM nodes")}
    rows = [row for row in stage.books.events("NodeLost") if row["group"] == entry["group"]]
    assert {names[row["node_id"]] for row in rows} == set(entry["nodes"])


def same_domain(stage: Stage, entry: Map) -> None:
    nodes = [node for held in stage.books.held() if held.group == entry["group"] for node in held.gpus]
    domains = {stage.label(node, entry["level"]) for node in nodes}
    assert len(domains) == 1, domains
    assert entry.get("domain", next(iter(domains))) in domains, domains


def preference_met(stage: Stage, entry: Map) -> None:
    assert stage.group_answer(entry["group"])["is_preference_met"] is entry["is"]


def unreachable(stage: Stage, entry: Map) -> None:
    assert stage.group_answer(entry["group"])["is_unreachable"] is entry["is"]


def ended_at(stage: Stage, entry: Map) -> None:
    shown = stage.group_answer(entry["group"])["ended_at"]
    assert shown is not None, "it has not ended"
    assert stage.seconds(shown) == entry["at"], shown


def stale_refused(stage: Stage, entry: Map) -> None:
    refusals = stage.stale_refusals(entry["worker"])
    assert [r for r in refusals if entry.get("by", r) == r], f"refused as stale by: {refusals or 'nobody'}"


def lease_kept(stage: Stage, entry: Map) -> None:
    before, after = stage.leases[entry["step"] - 1], stage.leases[entry["step"]]
    assert before == after
    assert after["holder"] == entry["worker"], after


def actor(stage: Stage, entry: Map) -> None:
    rows = [row for row in stage.books.events(*stage.event_kinds()) if row["group"] == entry["group"]]
    by_users = [row["actor"] for row in rows if row["actor"] in stage.users]
    assert by_users[-1] == entry["is"], by_users


def queue_order(stage: Stage, entry: Map) -> None:
    ranked = sorted(entry["queues"], key=lambda queue: stage.queue_answer(queue)["rank"])
    assert ranked == entry["queues"], ranked


def shares_reported(stage: Stage, entry: Map) -> None:
    for queue in entry["queues"]:
        share: Any = stage.queue_answer(queue)["share"]
        is_number = isinstance(share, int | float) and not math.isnan(share) and share >= 0
        assert is_number or share == "infinite", f"{queue}: {share}"


def claim(stage: Stage, entry: Map) -> None:
    shown = stage.group_answer(entry["group"])["claim"]
    assert (shown or {}).get("cause") == entry["cause"], shown
    if "due_at" in entry:
        due = shown["due_at"]
        assert (None if due is None else stage.seconds(due)) == entry["due_at"], shown
    assert entry.get("redated", (shown or {}).get("redated")) == (shown or {}).get("redated"), shown


def receipt(stage: Stage, entry: Map) -> None:
    """The newest of that victim for that claimant."""
    victim, claimant = stage.public_id(entry["victim"]), stage.public_id(entry["claimant"])
    found = [each for each in stage.receipts() if (each["victim"], each["claimant"]) == (victim, claimant)]
    assert found, f"{entry['victim']} did not give way to {entry['claimant']}: {stage.receipts()}"
    for field in ("entitlement", "outcome", "lost_gpu_seconds"):
        assert entry.get(field, found[0][field]) == found[0][field], found[0]
    for shares in (found[0]["shares_before"], found[0]["shares_after"]):
        assert all(share == "infinite" or share >= 0 for share in shares.values()), found[0]


def sliced(stage: Stage, entry: Map) -> None:
    """Each so many members that follow each other are in one domain of the level."""
    [held] = [held for held in stage.books.held() if held.group == entry["group"]]
    domains = [stage.label(node, entry["level"]) for _, _, node, _ in sorted(held.places)]
    slices = [domains[first : first + entry["size"]] for first in range(0, len(domains), entry["size"])]
    assert all(len(set(each)) == 1 for each in slices), slices


def time_limit_at(stage: Stage, entry: Map) -> None:
    shown = stage.group_answer(entry["group"])["time_limit_at"]
    assert (None if shown is None else stage.seconds(shown)) == entry["at"], shown


CHECKS: dict[str, Callable[[Stage, Map], None]] = {
    each.__name__: each
    for each in (
        answer, same_answer, queue_has, reason_has, refused_or_pending, members, cause, would, listed,
        planned_start, planned_starts_in_future, admitted_in_order, stopped_before_started,
        victims_in_distinct_queues, sorted_used, stable, writes, same_attempt, launched_only_on,
        never_status, lost_nodes, same_domain, preference_met, unreachable, ended_at, stale_refused,
        lease_kept, actor, queue_order, shares_reported, claim, receipt, sliced, time_limit_at,
    )
}  # fmt: skip
