"""How each named point is reached: under load alone, or by something that the test does besides."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable
from contextlib import suppress

import psutil

from service.client import ClientError
from service.operations.delete_queue import MOST_UNITS
from tests.e2e.stacks import wait_for, wait_status
from tests.faults import faults
from tests.faults.strikes import Strike, insist
from tests.faults.trial import Trial
from tests.faults.witness import connect
from workers.launchers.base import GenerationKey
from workers.launchers.local import tombstones
from workers.launchers.local.layout import Layout

#: An instant (seconds of the epoch) before anything that is kept.
_LONG_AGO = 0


TrialStrike = Strike[Trial]
Scenario = Callable[[TrialStrike], None]
SCENARIOS: dict[str, Scenario] = {}


def reaches(*points: str) -> Callable[[Scenario], Scenario]:
    """Note that this scenario makes somebody come to each of these points."""

    def note(scenario: Scenario) -> Scenario:
        for point in points:
            assert point not in SCENARIOS, point
            SCENARIOS[point] = scenario
        return scenario

    return note


# ---------------------------------------------------------------- load alone
@reaches(
    "api.cycle-woken",
    "api.groups-submitted",
    "api.groups-written",
    "dispatcher.attempts-claimed",
    "dispatcher.bell-heard",
    "dispatcher.generations-closed",
    "dispatcher.generations-forgotten",
    "dispatcher.leader-rung",
    "dispatcher.lease-kept",
    "dispatcher.lease-renewed",
    "dispatcher.members-launched",
    "dispatcher.members-listed",
    "dispatcher.pass-recorded",
    "dispatcher.passes-counted",
    "file.drafted",
    "file.linked",
    "launcher.folders-made",
    "launcher.generations-forbidden",
    "launcher.orders-sent",
    "launcher.over-forbidden",
    "launcher.port-chosen",
    "launcher.port-dropped",
    "launcher.record-dropped",
    "launcher.stop-order-dropped",
    "launcher.tombstone-written",
    "spawner.orders-received",
    "spawner.supervisor-forked",
    "supervisor.command-executed",
    "supervisor.end-seen",
    "supervisor.end-written",
    "supervisor.member-forked",
    "supervisor.member-recorded",
    "supervisor.no-tombstone-seen",
    "supervisor.start-noted",
    "supervisor.start-reported",
    "wake.marked",
    "ticker.usage-charged",
    "ticker.usage-written",
    "worker.bell-emptied",
    "worker.bell-heard",
    "worker.committed",
    "worker.cycle-written",
    "worker.cycles-counted",
    "worker.dispatchers-rung",
    "worker.lease-renewed",
    "worker.places-released",
    "worker.published",
    "worker.reserved",
    "worker.wake-deleted",
)
def groups_stream_in(strike: TrialStrike) -> None:
    strike.arm()


# ---------------------------------------------------------------- starts and stops
@reaches(
    "worker.epoch-raised",
    "worker.first-job-enqueued",
    "worker.incarnation-written",
    "worker.lease-taken",
    "worker.ledger-switched",
)
def a_worker_starts(strike: TrialStrike) -> None:
    _restart(strike, "worker")


@reaches("worker.half-life-changed")
def the_ledger_of_usage_has_another_half_life(strike: TrialStrike) -> None:
    with connect(strike.trial.up.data) as conn:
        conn.execute("UPDATE usage_decay SET half_life_seconds = 60")
    _restart(strike, "worker")


@reaches(
    "dispatcher.lease-taken",
    "dispatcher.nodes-registered",
    "dispatcher.pool-ensured",
    "launcher.spawner-started",
)
def a_dispatcher_starts(strike: TrialStrike) -> None:
    _restart(strike, "dispatcher")


@reaches("ticker.ended-groups-dropped", "ticker.old-events-dropped", "ticker.retention-counted")
def a_ticker_starts(strike: TrialStrike) -> None:
    _restart(strike, "ticker")


@reaches("ticker.job-enqueued")
def no_job_waits_for_a_while(strike: TrialStrike) -> None:
    strike.arm()
    strike.trial.stream.rest()
    strike.afterwards.append(strike.trial.stream.go_on)


@reaches("worker.lease-given-up")
def a_worker_is_told_to_stop(strike: TrialStrike) -> None:
    strike.arm()
    os.kill(strike.trial.up.identity("worker").pid, signal.SIGTERM)


@reaches("api.admin-key-drafted", "api.admin-key-stored", "api.admin-key-written")
def an_api_starts_without_the_admins_key(strike: TrialStrike) -> None:
    (strike.trial.up.data / "admin.key").unlink()
    _restart(strike, "api")


def _restart(strike: TrialStrike, part: str) -> None:
    strike.arm()
    os.kill(strike.trial.up.identity(part).pid, signal.SIGKILL)


# ---------------------------------------------------------------- what users ask for
@reaches("api.change-written", "api.group-cancelled")
def a_running_gang_is_cancelled(strike: TrialStrike) -> None:
    group = strike.trial.run(strike.trial.journal.long_gang(2, name="cancelled"), "Cancelled")
    strike.arm()
    insist(lambda: strike.trial.client.cancel(group))


@reaches("api.dispatchers-rung", "dispatcher.members-told", "launcher.stop-ordered")
def a_running_gang_is_cancelled_for_good(strike: TrialStrike) -> None:
    a_running_gang_is_cancelled(strike)


@reaches("api.member-cancelled")
def a_member_is_cancelled(strike: TrialStrike) -> None:
    body = strike.trial.journal.independent(3, seconds=2.0, name="one is cancelled")
    group = strike.trial.submit(body, "Succeeded", "Cancelled")
    strike.arm()
    insist(lambda: strike.trial.client.members(group).cancel(1))


@reaches("api.group-held")
def a_group_is_held(strike: TrialStrike) -> None:
    group = _submit_what_waits(strike)
    strike.arm()
    insist(lambda: strike.trial.client.hold(group))


@reaches("api.group-released")
def a_group_is_released(strike: TrialStrike) -> None:
    group = _submit_what_waits(strike)
    strike.trial.client.hold(group)
    strike.arm()
    insist(lambda: strike.trial.client.release(group))


@reaches("api.group-changed")
def a_group_is_changed(strike: TrialStrike) -> None:
    group = _submit_what_waits(strike)
    strike.arm()
    insist(lambda: strike.trial.client.update(group, {"priority": 5}))


@reaches("store.dependents-answered")
def a_group_ends_for_which_others_wait(strike: TrialStrike) -> None:
    """Who ends it is killed when the answers are written and not committed."""
    trial = strike.trial
    first = trial.submit(trial.journal.gang(1, seconds=2, name="first"))
    for when, end in (("ok", "Succeeded"), ("any", "Succeeded"), ("not_ok", "Cancelled")):
        body = trial.journal.gang(1, name=f"after-{when}")
        trial.submit(body | {"after": [{"group": first, "when": when}]}, end)
    strike.arm()


def _submit_what_waits(strike: TrialStrike) -> str:
    """A gang that does not fit beside the one that runs across the fault. Others wait behind it, so it is
    cancelled in the end."""
    group = strike.trial.submit(strike.trial.journal.gang(6, name="waits"), "Cancelled")
    strike.afterwards.append(lambda: insist(lambda: strike.trial.client.cancel(group)))
    return group


@reaches("api.key-created", "api.key-revoked")
def a_key_is_made_and_revoked(strike: TrialStrike) -> None:
    made = strike.trial.client.keys.create(f"user-{uuid.uuid4().hex}")
    strike.arm()
    with suppress(ClientError):
        strike.trial.client.keys.create(f"user-{uuid.uuid4().hex}")
    with suppress(ClientError):
        strike.trial.client.keys.revoke(made.id)


@reaches("api.queue-changed", "api.queue-created", "api.queue-deleted")
def a_queue_comes_and_goes(strike: TrialStrike) -> None:
    queues, name = strike.trial.client.queues, f"queue-{uuid.uuid4().hex}"
    strike.arm()
    with suppress(ClientError):  # it was made, and nobody heard of it
        queues.create(name, {})
    insist(lambda: queues.update(name, {"limit": {"H100-80GB": 4}}))
    with suppress(ClientError):
        queues.delete(name)


@reaches("ticker.queue-emptied", "ticker.cycle-woken")
def a_queue_is_drained_and_deleted(strike: TrialStrike) -> None:
    """It takes more than one step: whoever is killed between them goes on with what is left."""
    trial, name = strike.trial, f"queue-{uuid.uuid4().hex}"
    trial.client.queues.create(name, {})
    trial.submit(trial.journal.gang(1, name="runs") | {"queue": name}, "Cancelled", "Succeeded")
    waits = trial.journal.gang(6, name="waits") | {"queue": name, "after": [{"group": trial.across}]}
    for group in trial.client.submit_batch([waits] * (MOST_UNITS + 20), key=str(uuid.uuid4())):
        trial.expect(group.id, "Cancelled")
    strike.arm()
    insist(lambda: trial.client.queues.delete(name, has_drain=True))
    strike.afterwards.append(lambda: _wait_until_gone(trial, name))


def _wait_until_gone(trial: Trial, queue: str) -> None:
    wait_for(
        lambda: None if queue in {each.name for each in trial.client.queues.list()} else True, "it is gone"
    )


@reaches("api.priority-class-put", "api.priority-class-deleted")
def a_priority_class_comes_and_goes(strike: TrialStrike) -> None:
    classes, name = strike.trial.client.priority_classes, f"class-{uuid.uuid4().hex}"
    strike.arm()
    insist(lambda: classes.put(name, 7))
    with suppress(ClientError):
        classes.delete(name)


@reaches("api.policy-applied")
def a_policy_is_applied(strike: TrialStrike) -> None:
    policy, name = strike.trial.client.policy, f"cohort-{uuid.uuid4().hex}"
    before = policy.get()
    strike.afterwards.append(lambda: policy.apply(before, has_prune=True))
    strike.arm()
    insist(lambda: policy.apply({"cohorts": [{"name": name}]}))


@reaches("api.cohort-changed", "api.cohort-created", "api.cohort-deleted")
def a_cohort_comes_and_goes(strike: TrialStrike) -> None:
    cohorts, name = strike.trial.client.cohorts, f"cohort-{uuid.uuid4().hex}"
    strike.arm()
    with suppress(ClientError):  # it was made, and nobody heard of it
        cohorts.create(name, {})
    insist(lambda: cohorts.update(name, {"nominal_quota": {"H100-80GB": 4}}))
    with suppress(ClientError):
        cohorts.delete(name)


@reaches("store.rows-copied")
def a_group_of_many_pieces_is_cancelled(strike: TrialStrike) -> None:
    client = strike.trial.client
    group = strike.trial.submit(
        strike.trial.journal.independent(40, name="in pieces"), "Cancelled", "Succeeded"
    )
    client.hold(group)
    for member in range(20, 40, 2):
        client.members(group).cancel(member)
    strike.arm()
    insist(lambda: client.cancel(group))


@reaches("store.lines-copied")
def a_batch_is_submitted(strike: TrialStrike) -> None:
    trial, key = strike.trial, str(uuid.uuid4())
    bodies = [trial.journal.gang(1, seconds=0.01, name="one of many") for _ in range(20)]
    strike.arm()
    made = insist(lambda: trial.client.submit_batch(bodies, key=key))
    for group in made:
        trial.expect(group.id)


@reaches("api.node-cordoned", "api.node-uncordoned")
def a_node_is_cordoned(strike: TrialStrike) -> None:
    nodes = strike.trial.client.nodes
    (node,) = nodes.list()
    strike.afterwards.append(lambda: nodes.uncordon(node.name))
    strike.arm()
    insist(lambda: nodes.cordon(node.name))
    insist(lambda: nodes.uncordon(node.name))


@reaches("api.node-drained", "dispatcher.drained-evicted")
def a_node_is_drained(strike: TrialStrike) -> None:
    nodes = strike.trial.client.nodes
    (node,) = nodes.list()
    strike.afterwards.append(lambda: nodes.uncordon(node.name))
    strike.arm()
    insist(lambda: nodes.drain(node.name, deadline=0))


# ---------------------------------------------------------------- members and what keeps them
@reaches("launcher.abandoned-ended", "launcher.abandoned-killed")
def a_supervisor_is_killed(strike: TrialStrike) -> None:
    wait_status(strike.trial.client, strike.trial.across, "Running")
    strike.arm()
    faults.supervisor(strike.trial.up, strike.trial.across, rank=1).kill()


@reaches("launcher.closed-killed")
def a_gang_is_cancelled_whose_supervisor_is_frozen(strike: TrialStrike) -> None:
    group = _run_with_frozen_supervisor(strike)
    strike.arm()
    strike.trial.client.cancel(group)


@reaches("launcher.closed-ended")
def nobody_else_sees_that_a_frozen_supervisor_is_killed(strike: TrialStrike) -> None:
    group = _run_with_frozen_supervisor(strike)
    spawner = faults.spawner(strike.trial.up)
    strike.trial.point.set("launcher.closed-killed", "freeze")
    strike.trial.client.cancel(group)
    with strike.frozen():
        # It would tell of the end of a supervisor.
        spawner.suspend()
        strike.afterwards.append(spawner.resume)
        strike.arm()


def _run_with_frozen_supervisor(strike: TrialStrike) -> str:
    body = strike.trial.journal.long_gang(2, name="frozen") | {"checkpoint": {"grace": "1s"}}
    group = strike.trial.run(body, "Cancelled")
    faults.supervisor(strike.trial.up, group, rank=0).suspend()
    return group


@reaches("supervisor.log-begun", "supervisor.log-set-aside")
def a_member_says_more_than_its_log_holds(strike: TrialStrike) -> None:
    strike.arm()
    strike.trial.submit(strike.trial.journal.doing(f"yes {'x' * 99} | head -n 4000", members=2))


@reaches("supervisor.record-taken-back")
def a_generation_is_closed_before_its_record_is_written(strike: TrialStrike) -> None:
    trial = strike.trial
    with strike.frozen_at("supervisor.member-forked"):
        with connect(trial.up.data) as conn:
            claimed = conn.execute(
                "SELECT unit_id, attempt, generation FROM attempts WHERE dispatch = 'Claimed'"
            ).fetchall()
        _forbid(trial, *(GenerationKey(*key) for key in claimed))
        strike.arm()


@reaches("worker.alarm-rung")
def a_refused_launch_is_tried_again_later(strike: TrialStrike) -> None:
    trial = strike.trial
    (node,) = trial.client.nodes.list()
    # So that nobody starts it before it is closed.
    trial.client.nodes.cordon(node.name)
    strike.afterwards.append(lambda: trial.client.nodes.uncordon(node.name))
    group = trial.submit(trial.journal.gang(1, name="refused once"))
    with connect(trial.up.data) as conn:
        found = conn.execute(
            "SELECT u.id, u.attempt FROM units u JOIN groups g ON g.id = u.group_id WHERE g.public_id = %s",
            [group],
        ).fetchone()
    assert found is not None
    _forbid(trial, GenerationKey(found[0], found[1], 1))
    strike.arm()
    trial.client.nodes.uncordon(node.name)


@reaches("launcher.old-logs-dropped", "launcher.old-tombstone-dropped")
def what_is_old_is_swept(strike: TrialStrike) -> None:
    data = strike.trial.up.data
    logs, tombstone = data / "logs" / "999999999", _layout(strike.trial).tombstone(999999999)
    logs.mkdir()
    tombstone.touch()
    for old in (logs, tombstone):
        os.utime(old, (_LONG_AGO, _LONG_AGO))
    _restart(strike, "dispatcher")


# ---------------------------------------------------------------- what comes between two of them
@reaches("worker.places-given-back")
def what_was_reserved_is_held_meanwhile(strike: TrialStrike) -> None:
    client = strike.trial.client
    with strike.frozen_at("worker.reserved"):
        waiting = [group.id for group in client.list_groups(is_waiting=True) if group.id]
        for group in waiting:
            client.hold(group)
        strike.arm()
    strike.afterwards.extend([lambda group=group: client.release(group) for group in waiting])  # type: ignore[misc]


@reaches("worker.job-enqueued", "worker.wake-set")
def somebody_rings_while_a_job_ends(strike: TrialStrike) -> None:
    with strike.frozen_at("worker.published"):
        # Longer than a job may take, so that this is its last cycle; and groups stream in.
        time.sleep(1.2)
        strike.arm()


@reaches("dispatcher.strays-forgotten")
def ended_members_are_found_at_a_start(strike: TrialStrike) -> None:
    strike.trial.point.set("launcher.over-forbidden")
    strike.trial.point.wait_struck()
    strike.arm()


@reaches("dispatcher.reachability-recorded")
def the_launcher_can_start_nothing(strike: TrialStrike) -> None:
    log = _layout(strike.trial).supervisor_log
    kept = log.with_suffix(".kept")
    log.rename(kept)
    log.mkdir()

    def mend() -> None:
        log.rmdir()
        kept.rename(log)

    strike.afterwards.append(mend)
    strike.arm()
    with suppress(psutil.Error, StopIteration):
        faults.spawner(strike.trial.up).kill()


@reaches(
    "dispatcher.devices-found",
    "dispatcher.devices-lost",
    "dispatcher.misplaced-moved",
    "dispatcher.strays-closed",
    "worker.devices-marked",
)
def a_member_sits_elsewhere_than_the_books_say(strike: TrialStrike) -> None:
    """As after the restore of an older dump (T1)."""
    trial = strike.trial
    group = trial.run(trial.journal.long_gang(1, name="misplaced"))
    # Nothing more is admitted, so that a device becomes free.
    (node,) = trial.client.nodes.list()
    trial.client.nodes.cordon(node.name)
    strike.afterwards.append(lambda: trial.client.nodes.uncordon(node.name))
    _wait_until_only_these_hold(trial, 4)
    with connect(trial.up.data) as conn, faults.gone(trial.up, "dispatcher", "worker"):
        moved = conn.execute(_MOVE_IN_THE_BOOKS, [group]).fetchone()
        strike.arm()
    assert moved is not None, "no device was free"


_MOVE_IN_THE_BOOKS = """
    WITH unit AS (SELECT u.id FROM units u JOIN groups g ON g.id = u.group_id WHERE g.public_id = %s),
    free AS (
        SELECT node_id, max(device) AS device FROM devices
        WHERE (node_id, device) NOT IN (SELECT node_id, device FROM held_devices) GROUP BY node_id
    ),
    held AS (
        UPDATE held_devices h SET device = free.device FROM free, unit
        WHERE h.unit_id = unit.id AND h.node_id = free.node_id RETURNING h.unit_id, h.device
    )
    UPDATE attempts a SET places = jsonb_set(a.places, '{0,3}', jsonb_build_array(held.device))
    FROM held WHERE a.unit_id = held.unit_id RETURNING a.places
"""


# ---------------------------------------------------------------- helpers
def _wait_until_only_these_hold(trial: Trial, gpus: int) -> None:
    wait_for(lambda: True if trial.client.inventory().gpus_held == gpus else None, "the others have ended")


def _layout(trial: Trial) -> Layout:
    return Layout(trial.up.data / "launcher")


def _forbid(trial: Trial, *keys: GenerationKey) -> None:
    """Close generations as a dispatcher would that the books know nothing of."""
    tombstones.forbid(_layout(trial), keys)
