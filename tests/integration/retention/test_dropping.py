"""K1: what ended long ago goes with all that hangs on it; what did not, stays."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

from service.domain.dependency import Dependency, When
from service.domain.principal import KeyRole, Principal
from service.domain.status import Cause, Status
from service.operations import retain
from service.operations.cancel import cancel_group
from service.operations.charge import charge_closed_attempts
from service.operations.evict import evict_units
from service.operations.retain import drop_old_events
from service.store.event_reads import list_ended_groups
from service.store.group_lists import GroupFilter, ListKey, list_groups
from service.store.retention import drop_groups, lock_droppable
from tests.integration.dispatch.site import START, Site, Unit
from tests.integration.retention.history import DAY, cancel, drop, left, submit

NOWHERE: set[int] = set()
ADMIN = Principal(tenant="t", user="admin", role=KeyRole.ADMIN)


def ended(site: Site, name: str, seconds: float) -> Unit:
    unit = site.admit(name, [("n1", (0,)), ("n1", (1,))], secrets={"TOKEN": "hush"})
    site.pass_at(seconds)
    site.cluster.end(name, member=0)
    site.cluster.end(name, member=1)
    site.pass_at(seconds + 1)
    assert site.status(unit) == "Succeeded"
    return unit


def test_a_group_goes_with_everything_a_month_after_its_end(site: Site, engine: Engine) -> None:
    unit = ended(site, "g1", 1)
    assert charge_closed_attempts(engine) == 1
    before = left(engine)
    assert all(groups == {unit.group_id} for groups in before.values()), before
    end = site.clock.now()

    assert drop(engine, end + 30 * DAY - timedelta(seconds=2))[0].groups == 0
    assert left(engine) == before

    assert drop(engine, end + 30 * DAY + timedelta(seconds=1))[0].groups == 1
    assert all(groups == NOWHERE for groups in left(engine).values())


def test_only_what_ended_long_ago_goes(site: Site, engine: Engine) -> None:
    gone = ended(site, "gone", 1)
    assert charge_closed_attempts(engine) == 1
    running = site.admit("running", [("n1", (2,))])
    site.pass_at(3)
    waiting = submit(engine, site.clock.now()).groups[0].id
    recent = submit(engine, site.clock.now())
    late = START + 40 * DAY
    cancel(engine, recent.public_ids, late)

    assert sum(step.groups for step in drop(engine, late + DAY)) == 1

    kept = {running.group_id, waiting, recent.groups[0].id}
    assert left(engine)["groups"] == kept
    assert left(engine)["units"] == kept
    assert gone.group_id not in left(engine)["events"]
    assert site.status(running) == "Running"
    site.cluster.end("running")
    site.pass_at(4)
    assert site.status(running) == "Succeeded"


def test_what_a_group_waits_for_stays_until_it_has_ended(engine: Engine) -> None:
    """K1: also once it has been answered."""
    first = submit(engine, START)
    after = Dependency(group=first.public_ids[0], when=When.ANY)
    second = submit(engine, START, after=(after,))
    cancel(engine, first.public_ids, START)

    assert sum(step.groups for step in drop(engine, START + 40 * DAY)) == 0

    cancel(engine, second.public_ids, START + DAY)
    assert sum(step.groups for step in drop(engine, START + 40 * DAY)) == 2
    with engine.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM group_dependencies")).scalar_one() == 0


def test_each_attempt_of_a_group_is_to_be_charged(site: Site, engine: Engine) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.pass_at(1)
    with engine.begin() as conn:
        evict_units(
            conn,
            [unit.id],
            target=Status.PENDING,
            cause=Cause.INFRASTRUCTURE,
            message="to be seen",
            now=site.clock.now(),
            actor="alice",
        )
    site.pass_at(2)
    assert (site.status(unit), site.unit(unit).attempt) == ("Pending", 2)
    public_id = site.rows("SELECT public_id FROM groups")[0].public_id
    cancel_group(engine, public_id, principal=ADMIN, now=site.clock.now())
    late = site.clock.now() + 31 * DAY
    assert charge_closed_attempts(engine) == 1
    with engine.connect() as conn, conn.begin() as transaction:
        conn.execute(text("DELETE FROM closed_attempts"))
        limits = {"ended_before": late, "keys_before": late}
        assert lock_droppable(conn, [unit.group_id], **limits) == {}
        transaction.rollback()
    assert drop(engine, late)[0].groups == 1


def test_a_group_whose_usage_is_not_charged_stays(site: Site, engine: Engine) -> None:
    unit = ended(site, "g1", 1)
    late = site.clock.now() + 31 * DAY
    assert sum(step.groups for step in drop(engine, late)) == 0
    assert left(engine)["groups"] == {unit.group_id}
    assert charge_closed_attempts(engine) == 1
    assert sum(step.groups for step in drop(engine, late)) == 1


def test_a_group_with_a_dispatch_row_stays_whatever_its_units_say(site: Site, engine: Engine) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.pass_at(1)
    with engine.begin() as conn:
        conn.execute(
            text("UPDATE units SET status = 'Failed', ended_at = :at WHERE id = :id"),
            {"at": START, "id": unit.id},
        )
    assert sum(step.groups for step in drop(engine, START + 31 * DAY)) == 0
    with pytest.raises(IntegrityError, match="fk_attempts_unit_id"), engine.begin() as conn:
        drop_groups(conn, [unit.group_id])
    assert site.held(unit) == 1


def test_steps_are_small_and_go_on_where_the_last_one_stopped(engine: Engine) -> None:
    made = submit(engine, START, count=retain.MOST_GROUPS + 10)
    keeper = made.groups[3].id
    ids = [public_id for public_id in made.public_ids if public_id != made.groups[3].public_id]
    with engine.begin() as conn:
        conn.execute(
            text(
                "UPDATE units SET status = 'Cancelled', ended_at = :at FROM groups g"
                " WHERE g.id = units.group_id AND g.public_id = ANY(:ids)"
            ),
            {"at": START, "ids": ids},
        )
    steps = drop(engine, START + 31 * DAY)
    assert [step.groups for step in steps] == [retain.MOST_GROUPS - 1, 10, 0]
    assert left(engine)["groups"] == {keeper}


def test_a_group_from_a_wrong_clock_stops_nobody(engine: Engine) -> None:
    far = submit(engine, START + 3_000 * DAY)
    old = submit(engine, START)
    cancel(engine, [*far.public_ids, *old.public_ids], START)
    assert sum(step.groups for step in drop(engine, START + 31 * DAY)) == 1
    assert left(engine)["groups"] == {far.groups[0].id}


def test_a_list_goes_on_behind_what_was_dropped(engine: Engine) -> None:
    made = submit(engine, START, count=6)
    with engine.connect() as conn:
        first = list_groups(conn, GroupFilter(), after=None, limit=2)
    cancel(engine, made.public_ids[2:5], START)
    drop(engine, START + 31 * DAY)
    with engine.connect() as conn:
        last = ListKey(first[-1].priority, first[-1].submitted_at, first[-1].id)
        rest = list_groups(conn, GroupFilter(), after=last, limit=10)
    assert [group.id for group in rest] == [made.groups[1].id, made.groups[0].id]


def test_a_stream_of_a_dropped_group_has_ended(engine: Engine) -> None:
    made = submit(engine, START, count=2)
    cancel(engine, made.public_ids[:1], START)
    drop(engine, START + 31 * DAY)
    with engine.connect() as conn:
        assert list_ended_groups(conn, [group.id for group in made.groups]) == {made.groups[0].id}


def test_events_of_nodes_go_by_their_own_age(site: Site, engine: Engine) -> None:
    site.admit("g1", [("n1", (0,))])
    count = "SELECT count(*) FROM events WHERE group_id IS NULL"
    had = site.rows(count)[0][0]
    assert had > 0
    assert drop_old_events(engine, kept=DAY, now=START + DAY) == 0
    assert drop_old_events(engine, kept=DAY, now=START + 2 * DAY) == had
    assert site.rows(count)[0][0] == 0
