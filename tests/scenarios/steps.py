"""The steps of the vocabulary: each drives the real API, leader, dispatcher and launcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.scenarios.bodies import queue_body
from tests.scenarios.scenario import Map, step_groups

if TYPE_CHECKING:
    from tests.scenarios.stage import Stage

#: More than this many groups of one counted submit go as batches, in the same order.
_BATCH = 50
_SETTLED_AFTER = 20


def run(stage: Stage, step: Map) -> None:
    STEPS[step["do"]](stage, step)


def submit(stage: Stage, step: Map) -> None:
    names = [group for name in step_groups(step) for group in stage.scenario.members_of(name)]
    if len(names) > _BATCH:
        _submit_all(stage, step, [stage.body_of(step, name) for name in names], names)
        return
    for name in names:
        body = stage.body_of(step, name)
        response = stage.call("POST", "/v1/groups", step, json=body)
        if response.status_code < 300:
            stage.note_submitted(name, step, response.json())


def submit_batch(stage: Stage, step: Map) -> None:
    names = [entry["group"] for entry in step["batch"]]
    bodies = [stage.body_of(entry, entry["group"]) for entry in step["batch"]]
    _submit_all(stage, step, bodies, names, entries=step["batch"])


def _submit_all(
    stage: Stage, step: Map, bodies: list[Map], names: list[str], *, entries: list[Map] | None = None
) -> None:
    response = stage.call("POST", "/v1/groups/batch", step, json={"groups": bodies})
    if response.status_code < 300:
        answers = response.json()["groups"]
        for position, (name, answer) in enumerate(zip(names, answers, strict=True)):
            stage.note_submitted(name, entries[position] if entries else step, answer)


def dry_run(stage: Stage, step: Map) -> None:
    stage.call("POST", "/v1/groups/check", step, json=stage.body_of(step, "dry-run"))


def cancel(stage: Stage, step: Map) -> None:
    targets = [step["id"]] if "id" in step else _public_ids(stage, step)
    for target in targets:
        body = {"user": step["body_user"]} if "body_user" in step else None
        stage.call("DELETE", f"/v1/groups/{target}", step, json=body)


def hold(stage: Stage, step: Map) -> None:
    for target in _public_ids(stage, step):
        stage.call("POST", f"/v1/groups/{target}/hold", step)


def release(stage: Stage, step: Map) -> None:
    for target in _public_ids(stage, step):
        stage.call("POST", f"/v1/groups/{target}/release", step)


def _public_ids(stage: Stage, step: Map) -> list[str]:
    return [stage.public_id(group) for name in step_groups(step) for group in stage.scenario.members_of(name)]


def cycle(stage: Stage, step: Map) -> None:
    worker = step.get("worker", "w1")
    if "stop_after" in step:
        stage.frozen_cycle(worker, step["stop_after"])
        return
    stage.take_picture(step["step"])
    if step.get("until") == "settled":
        _until_settled(stage, step, worker)
        return
    for repetition in range(step.get("times", 1)):
        if repetition or "every_seconds" in step:
            stage.advance(step.get("every_seconds", 0))
        stage.cycle(worker)
        stage.take_picture(step["step"])


def _until_settled(stage: Stage, step: Map, worker: str) -> None:
    for _ in range(_SETTLED_AFTER):
        stage.cycle(worker)
        stage.take_picture(step["step"])
        last = stage.pictures[step["step"]][-3:]
        if len(last) == 3 and last[0] == last[1] == last[2]:
            return
    raise AssertionError(f"not settled after {_SETTLED_AFTER} cycles")


def resume(stage: Stage, step: Map) -> None:
    stage.resume(step["worker"])


def kill(stage: Stage, step: Map) -> None:
    stage.kill(step["worker"])


def reconcile(stage: Stage, _: Map) -> None:
    stage.dispatcher_pass()


def restart(stage: Stage, step: Map) -> None:
    stage.restart(ledger_is_lost=step["ledger"] == "lost")


def end(stage: Stage, step: Map) -> None:
    for name in stage.scenario.members_of(step["group"]):
        stage.launcher.end(name, step.get("member"), step.get("exit_code", 0), step["step"])


def report_again(stage: Stage, step: Map) -> None:
    stage.launcher.report_again(step["of"])


def simulate(stage: Stage, step: Map) -> None:
    for name in stage.scenario.members_of(step["group"]):
        stage.launcher.simulate(
            name,
            launch=step.get("launch"),
            ready=step.get("ready"),
            exits=step.get("exit"),
            message=step.get("message"),
        )


def node_down(stage: Stage, step: Map) -> None:
    stage.launcher.node_down(step["node"])


def node_up(stage: Stage, step: Map) -> None:
    stage.launcher.node_up(step["node"])


def launcher_down(stage: Stage, step: Map) -> None:
    stage.launcher.set_reachable(step["pool"], is_reachable=False)


def launcher_up(stage: Stage, step: Map) -> None:
    stage.launcher.set_reachable(step["pool"], is_reachable=True)


def cordon(stage: Stage, step: Map) -> None:
    stage.call("POST", f"/v1/nodes/{step['node']}/cordon", step)


def uncordon(stage: Stage, step: Map) -> None:
    stage.call("POST", f"/v1/nodes/{step['node']}/uncordon", step)


def drain(stage: Stage, step: Map) -> None:
    body = {"deadline": step["deadline_seconds"]} if "deadline_seconds" in step else {}
    stage.call("POST", f"/v1/nodes/{step['node']}/drain", step, json=body)


def create_queue(stage: Stage, step: Map) -> None:
    stage.call("POST", "/v1/queues", step, json=queue_body(step["queue"]))


def set_queue(stage: Stage, step: Map) -> None:
    changes = {key: step[key] for key in ("nominal_quota", "limit", "stop") if key in step}
    stage.call("PATCH", f"/v1/queues/{step['queue']}", step, json=changes)


def set_group(stage: Stage, step: Map) -> None:
    changes = {"priority": step["priority"]} if "priority" in step else {}
    if "time_limit_seconds" in step:
        changes["time_limit"] = step["time_limit_seconds"]
    for target in _public_ids(stage, step):
        stage.call("PATCH", f"/v1/groups/{target}", step, json=changes)


def delete_queue(stage: Stage, step: Map) -> None:
    stage.call("DELETE", f"/v1/queues/{step['queue']}", step)


STEPS: dict[str, Callable[[Stage, Map], None]] = {
    step.__name__: step
    for step in (
        submit, submit_batch, dry_run, cancel, hold, release, cycle, resume, kill, reconcile, restart, end,
        report_again, simulate, node_down, node_up, launcher_down, launcher_up, cordon, uncordon, drain,
        create_queue, set_queue, delete_queue, set_group,
    )
}  # fmt: skip
