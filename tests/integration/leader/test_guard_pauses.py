"""When guards stood still is written with the cycle that saw it, and known to the next leader."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Connection, text

from service.admission.pauses import EVERYBODY
from service.clock import VirtualClock
from service.domain.unit import unit_id
from service.operations.commit import Outdated
from service.store.guard_pauses import read_guard_pauses
from tests.integration.leader.conftest import MakeLeader
from tests.integration.leader.site import MODEL, START, Site, bump, gang
from tests.integration.leader.test_world import fresh
from workers.admission import Leader

#: Slots of ten seconds.
GUARD = {"guard_seconds": 960.0}


@pytest.fixture
def guarded(make_leader: MakeLeader, site: Site) -> Leader:
    return make_leader(**GUARD)


def change_queue(site: Site, statement: str, **values: object) -> None:
    with site.engine.begin() as conn:
        conn.execute(text(statement), {"queue": site.queue_id, **values})
        bump(conn)


def stop(site: Site, how: str) -> None:
    change_queue(site, "UPDATE queues SET stop = :how WHERE id = :queue", how=how)


def pauses(site: Site) -> list[tuple[float, float | None]]:
    rows = site.rows("SELECT began_at, ended_at FROM guard_pauses ORDER BY began_at")
    return [
        (
            (row.began_at - START).total_seconds(),
            None if row.ended_at is None else (row.ended_at - START).total_seconds(),
        )
        for row in rows
    ]


def agree(leader: Leader, direct: Connection) -> None:
    assert leader.term is not None
    assert leader.term.world.snapshot() == fresh(direct).snapshot()


def test_a_pause_is_written_and_taken_over(
    site: Site, guarded: Leader, make_leader: MakeLeader, clock: VirtualClock, direct: Connection
) -> None:
    stop(site, "hold")
    [group] = site.submit(spec=gang(1))
    guarded.run_cycle()
    assert pauses(site) == [(0, None)]
    agree(guarded, direct)
    # A cycle in which nothing changes writes nothing.
    clock.advance(20)
    guarded.run_cycle()
    assert pauses(site) == [(0, None)]
    clock.advance(20)
    other = make_leader("w2", **GUARD)
    assert other.run_cycle().is_leader
    assert other.term is not None
    assert [each.halted for each in other.term.world.pauses[site.queue_id]] == [EVERYBODY]
    # The group is held elsewhere meanwhile, so that it waits on.
    with site.engine.begin() as conn:
        conn.execute(text("UPDATE nodes SET is_cordoned = true"))
    stop(site, "none")
    other.run_cycle()
    assert pauses(site) == [(0, 40)]
    agree(other, direct)
    site.cancel_waiting(unit_id(group, 0))
    other.run_cycle()
    assert pauses(site) == []
    agree(other, direct)


def test_classes_without_quota_are_named(site: Site, guarded: Leader, direct: Connection) -> None:
    change_queue(
        site,
        "WITH q AS (UPDATE queues SET has_quota = true WHERE id = :queue)"
        " INSERT INTO quotas (queue_id, resource, nominal) VALUES (:queue, :model, 4)",
        model=MODEL,
    )
    site.submit(spec=gang(4))
    guarded.run_cycle()
    [waiting] = site.submit(spec=gang(2))
    guarded.run_cycle()
    [row] = site.rows("SELECT shape_ids, unit_ids, moving FROM guard_pauses")
    [shape_id] = site.rows("SELECT shape_id FROM groups WHERE id = " + str(waiting))
    assert (row.shape_ids, row.unit_ids, row.moving) == ([shape_id[0]], [], None)
    agree(guarded, direct)


def test_what_was_not_committed_is_not_written(site: Site, guarded: Leader, clock: VirtualClock) -> None:
    guarded.run_cycle()
    stop(site, "hold")
    site.submit(spec=gang(1))
    term = guarded.term
    assert term is not None
    term.read()
    plan = term.plan(clock.now())
    assert [pause.queue_id for pause in plan.pauses_made] == [site.queue_id]
    stop(site, "hold_and_drain")
    assert isinstance(term.commit(plan, clock.now()), Outdated)
    assert pauses(site) == []
    assert not term.world.pauses
    guarded.run_cycle()
    assert pauses(site) == [(0, None)]


def test_a_queue_takes_its_pauses_with_it(site: Site, direct: Connection) -> None:
    change_queue(
        site,
        "INSERT INTO guard_pauses VALUES (:queue, :at, :until, '{2,3}', '{}', NULL)",
        at=START,
        until=START + timedelta(seconds=5),
    )
    [(queue_id, (pause,))] = read_guard_pauses(direct).items()
    assert (queue_id, pause.halted.shape_ids, pause.halted.moving) == (site.queue_id, (2, 3), None)
    direct.rollback()
    with site.engine.begin() as conn:
        conn.execute(text("DELETE FROM queues WHERE id = :queue"), {"queue": site.queue_id})
    assert pauses(site) == []
