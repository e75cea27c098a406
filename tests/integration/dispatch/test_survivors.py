"""Processes that outlive their attempt: they neither keep the next one from ending nor cost it anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.domain.status import Cause, Status
from service.operations.evict import evict_units
from service.operations.member_logs import log_path
from service.settings import Settings
from tests.integration.dispatch.site import Site, Unit
from workers.launchers.base import CloseResult, GenerationKey, LauncherUnreachable, MemberKey
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_behaviour import Exit

OTHER_KEY = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIzNDU="


def lost(site: Site) -> list[tuple[str, int]]:
    return [
        (row.name, row.device)
        for row in site.rows(
            "SELECT n.name, d.device FROM devices d JOIN nodes n ON n.id = d.node_id"
            " WHERE d.lost_at IS NOT NULL ORDER BY 1, 2"
        )
    ]


def restarted_elsewhere(site: Site) -> Unit:
    """Attempt 1 survives SIGKILL on n1/0, which is lost; attempt 2 runs on n2/3."""
    unit = site.admit("g1", [("n1", (0,))])
    site.cluster.behave("g1", exits=Exit.WHEN_TOLD)
    site.pass_at(1)
    with site.engine.begin() as conn:
        evict_units(
            conn,
            [unit.id],
            target=Status.PENDING,
            cause=Cause.INFRASTRUCTURE,
            message="drained",
            now=site.clock.now(),
        )
    site.pass_at(2)
    site.pass_at(70)
    assert (site.status(unit), lost(site)) == ("Pending", [("n1", 0)])
    site.admit_again(unit, [("n2", (3,))])
    site.pass_at(71)
    assert site.status(unit) == "Running"
    return unit


def test_a_success_is_not_kept_open_by_a_survivor_of_an_earlier_attempt(site: Site) -> None:
    unit = restarted_elsewhere(site)
    site.cluster.end("g1", attempt=2)

    site.pass_at(72)

    assert (site.status(unit), site.held(), lost(site)) == ("Succeeded", 0, [("n1", 0)])


def test_devices_of_an_attempt_that_is_gone_are_not_lost_for_an_earlier_one(site: Site) -> None:
    unit = restarted_elsewhere(site)
    site.cluster.end("g1", attempt=2)
    site.cancel(unit)

    site.pass_at(72)
    assert site.status(unit) == "Cancelled"
    site.pass_at(140)

    assert lost(site) == [("n1", 0)]


def first_of(key: GenerationKey) -> MemberKey:
    return MemberKey(key.unit_id, key.attempt, key.generation, 0)


def closes_late(site: Site, answers: list[bool]) -> Any:
    """A launcher whose `close` is not done at once: it names the member that is still there."""

    class ClosesLate(SimulatedLauncher):
        def close(self, generations: Any) -> Any:
            done = super().close(generations)
            if answers.pop(0):
                return done
            return [CloseResult(key=one.key, is_closed=False, survivors=(first_of(one.key),)) for one in done]

    return ClosesLate(site.cluster, "p1")


def test_a_success_whose_close_takes_long_is_asked_again(site: Site) -> None:
    answers = [False, False, True]
    site.dispatcher.close()
    site.dispatcher = site.make_dispatcher("d2", wrap=lambda _: closes_late(site, answers))
    unit = site.admit("g1", [("n1", (0,))])
    site.pass_at(1)
    site.cluster.end("g1")

    site.pass_at(2)
    site.pass_at(3)
    assert (site.status(unit), site.held(unit), answers) == ("Running", 1, [True])
    site.pass_at(4)

    assert (site.status(unit), site.held(), lost(site)) == ("Succeeded", 0, [])


def test_t1_nothing_is_launched_before_a_first_look_that_was_carried_through(site: Site) -> None:
    """The launcher is away just when a new dispatcher looks for what the books do not hold."""
    stray = site.admit("a", [("n1", (0,))])
    site.cluster.behave("a", exits=Exit.WHEN_TOLD)
    site.pass_at(1)
    with site.engine.begin() as conn:
        # A dump comes back in which it waits.
        conn.exec_driver_sql("DELETE FROM attempts")
        conn.exec_driver_sql("UPDATE units SET status = 'Pending', admitted_at = NULL")
    site.dispatcher.close()
    other = site.admit("b", [("n1", (0,))])
    is_away = [True]

    class AwayOnce(SimulatedLauncher):
        def observe(self) -> Any:
            if is_away:
                is_away.clear()
                raise LauncherUnreachable("for a moment")
            return super().observe()

    site.dispatcher = site.make_dispatcher("d2", wrap=lambda _: AwayOnce(site.cluster, "p1"))
    site.pass_at(2)

    assert (site.live(stray), site.live(other), lost(site)) == (1, 0, [("n1", 0)])
    assert site.cluster.records.double_booked == []


@pytest.mark.parametrize("count", [1, 3])
def test_secrets_sealed_with_another_key_cost_the_log_lines_and_nothing_else(
    site: Site, tmp_path: Path, count: int
) -> None:
    units = [
        site.admit(f"g{n}", [("n1", (n,))], secrets={"TOKEN": "s3cret-value"}, max_restarts=0)
        for n in range(count)
    ]
    site.pass_at(1)
    for unit in units:
        log = log_path(tmp_path, MemberKey(unit.id, 1, 1, 0))
        log.parent.mkdir(parents=True)
        log.write_text("s3cret-value\n")
    site.settings = Settings(data=tmp_path, secret_key=OTHER_KEY)
    site.restart()
    for unit in units:
        site.cluster.end(unit.name, exit_code=1)
    other = site.admit("other", [("n2", (0,))])

    site.pass_at(2)

    assert site.status(other) == "Running"
    for unit in units:
        assert site.status(unit) == "Failed"
        assert "s3cret-value" not in site.unit(unit).message
