"""The ledger of usage: every closed attempt is charged exactly once, with the integral of what it held."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from sqlalchemy import text

from service.domain.status import Cause, Status
from service.operations.charge import charge_closed_attempts, ensure_half_life
from service.operations.evict import evict_units
from service.store.usage_ledger import RUNTIMES_KEPT, charge_some
from tests.integration.dispatch.site import START, Site
from tests.integration.dispatch.test_random_walks import Walk
from tests.integration.usage.books import counts_at, held_and_lost, ledger, ledger_at

HALF_LIFE = 300.0


def set_half_life(site: Site, seconds: float) -> bool:
    with site.engine.connect() as conn:
        return ensure_half_life(conn, seconds)


def test_a_group_is_charged_once_for_what_it_held(site: Site) -> None:
    site.admit("g1", [("n1", (0, 1)), ("n2", (3,))])
    site.pass_at(1)
    site.cluster.behave("g1")
    site.clock.move_to(START + timedelta(seconds=40))
    for member in (0, 1):
        site.cluster.end("g1", member=member)
    site.pass_at(41)

    assert ledger(site) == {}
    assert [charge_closed_attempts(site.engine) for _ in range(3)] == [1, 0, 0]

    assert ledger(site)["mx"] == pytest.approx((3 * 40.0, 0.0))
    [row] = site.rows("SELECT tenant, owner, decayed_seconds FROM usage")
    assert tuple(row) == ("t", "alice", 0.0)


def test_a_step_that_is_cut_off_has_charged_nothing(site: Site) -> None:
    site.admit("g1", [("n1", (0,))])
    site.pass_at(1)
    site.cluster.end("g1")
    site.pass_at(20)
    with site.engine.connect() as conn:
        assert charge_some(conn, limit=10)[0] == 1
        # Who comes meanwhile finds nothing to do, and waits for nobody.
        assert charge_closed_attempts(site.engine) == 0
        conn.rollback()
    assert ledger(site) == {}
    assert charge_closed_attempts(site.engine) == 1
    assert ledger(site) == held_and_lost(site)


@pytest.mark.parametrize(
    ("cause", "is_lost"), [(Cause.PREEMPTED, True), (Cause.INFRASTRUCTURE, True), (Cause.CANCELLED, False)]
)
def test_what_the_platform_lost_is_not_charged(site: Site, cause: Cause, is_lost: bool) -> None:
    set_half_life(site, HALF_LIFE)
    unit = site.admit("g1", [("n1", (0, 1))])
    site.pass_at(1)
    site.clock.advance(9)
    with site.engine.begin() as conn:
        evict_units(
            conn, [unit.id], target=Status.PENDING, cause=cause, message="", now=site.clock.now(), actor="x"
        )
    site.pass_at(11)
    site.pass_at(12)
    charge_closed_attempts(site.engine)
    [(held, seconds)] = ledger(site).values()
    assert seconds == (held if is_lost else 0)
    assert held >= 20
    assert bool(ledger_at(site, site.clock.now(), half_life=HALF_LIFE)) is not is_lost


@pytest.mark.parametrize("seed", range(4))
def test_it_equals_the_integral_whatever_happens_and_whenever_it_is_charged(site: Site, seed: int) -> None:
    set_half_life(site, HALF_LIFE)
    draw = random.Random(seed)
    walk = Walk(site, random.Random(seed))
    charged = 0
    for _ in range(60):
        walk.step()
        if draw.random() < 0.3:
            with site.engine.begin() as conn:
                charged += charge_some(conn, limit=draw.randint(1, 3))[0]
    while more := charge_closed_attempts(site.engine):
        charged += more
    assert charged == len(site.rows("SELECT FROM closed_attempts")) > 4
    assert ledger(site) == {name: pytest.approx(each) for name, each in held_and_lost(site).items()}
    now = site.clock.now() + timedelta(seconds=draw.choice((0, 100, 5_000)))
    wanted = counts_at(site, now, half_life=HALF_LIFE)
    assert ledger_at(site, now, half_life=HALF_LIFE) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_another_half_life_counts_as_if_it_had_always_been_the_one(site: Site) -> None:
    for number in range(4):
        site.admit(f"g{number}", [("n1", (number,))])
        site.pass_at(100 * number + 1)
        site.clock.advance(37)
        site.cluster.end(f"g{number}")
        site.pass_at(100 * number + 60)
    with site.engine.begin() as conn:
        charge_some(conn, limit=3)

    assert [set_half_life(site, seconds) for seconds in (0, 50.0, 50.0)] == [False, True, False]

    # What is not charged yet is neither lost by it nor counted twice.
    assert charge_closed_attempts(site.engine) == 1
    now = site.clock.now()
    assert ledger_at(site, now, half_life=50.0) == pytest.approx(
        counts_at(site, now, half_life=50.0), rel=1e-5
    )
    assert set_half_life(site, 0)
    assert site.rows("SELECT DISTINCT decayed_seconds FROM usage")[0][0] == 0.0
    assert ledger(site) == {name: pytest.approx(each) for name, each in held_and_lost(site).items()}


def test_places_that_changed_count_each_for_its_while(site: Site) -> None:
    set_half_life(site, HALF_LIFE)
    unit = site.admit("g1", [("n1", (0, 1))])
    site.pass_at(1)
    with site.engine.begin() as conn:
        conn.execute(
            text(
                "UPDATE attempts SET usage = '{\"mx\": 8}', resized_at = admitted_at + interval '10 s',"
                " held_before = jsonb_build_array(jsonb_build_object('usage', usage, 'began_at',"
                " admitted_at, 'ended_at', admitted_at + interval '10 s')) WHERE unit_id = :id"
            ),
            {"id": unit.id},
        )
    site.clock.move_to(START + timedelta(seconds=30))
    site.cluster.end("g1")
    site.pass_at(31)
    charge_closed_attempts(site.engine)
    assert ledger(site)["mx"] == pytest.approx((2 * 10 + 8 * 20, 0.0))
    whole = HALF_LIFE * 1.4426950408889634
    first = 2 * whole * (1 - 2 ** (-10 / HALF_LIFE)) * 2 ** (-20 / HALF_LIFE)
    second = 8 * whole * (1 - 2 ** (-20 / HALF_LIFE))
    assert site.rows("SELECT decayed_seconds FROM usage")[0][0] == pytest.approx(first + second)


def test_what_is_long_over_is_nothing_and_no_error(site: Site) -> None:
    set_half_life(site, 0.001)
    for number in range(3):
        site.admit(f"g{number}", [("n1", (0,))])
        site.pass_at(1 + 10_000 * number)
        site.cluster.end(f"g{number}")
        site.pass_at(5 + 10_000 * number)
        charge_closed_attempts(site.engine)
    [decayed] = site.rows("SELECT decayed_seconds FROM usage")[0]
    assert 0 <= decayed < 0.01
    assert set_half_life(site, 1e9)
    assert ledger_at(site, site.clock.now(), half_life=1e9) == {
        "mx": pytest.approx(sum(held for held, _ in held_and_lost(site).values()), rel=1e-3)
    }


def test_the_newest_runtimes_are_kept(site: Site) -> None:
    for start, name, exit_code in ((1, "good", 0), (101, "bad", 1)):
        site.admit(name, [("n1", (0,))], max_restarts=0)
        site.pass_at(start)
        site.clock.advance(60)
        site.cluster.end(name, exit_code=exit_code)
        site.pass_at(start + 61)
        site.pass_at(start + 62)
    late = site.admit("late", [("n2", (0,))], time_limit_seconds=100)
    site.pass_at(201)
    site.pass_at(302)
    site.pass_at(303)
    assert site.status(late) == "Failed"
    charge_closed_attempts(site.engine)
    found = site.rows("SELECT seconds, is_cut FROM runtimes ORDER BY ended_at, unit_id")
    assert [(round(row.seconds), row.is_cut) for row in found] == [(60, False), (60, False), (101, True)]
    with site.engine.begin() as conn:
        conn.execute(
            text(
                "INSERT INTO runtimes SELECT unit_id, attempt + n, queue_id, tenant, owner, n, false,"
                " ended_at - make_interval(secs => n) FROM runtimes, generate_series(1, 300) n WHERE is_cut"
            )
        )
    site.admit("last", [("n1", (0,))])
    site.pass_at(400)
    site.cluster.end("last")
    site.pass_at(410)
    charge_closed_attempts(site.engine)
    [kept] = site.rows("SELECT count(*) AS n, max(ended_at) AS newest FROM runtimes")
    assert kept.n == RUNTIMES_KEPT
    assert kept.newest == site.rows("SELECT max(ended_at) AS at FROM closed_attempts")[0].at
