"""From the end of one attempt to the start of the next on the same GPU, as /metrics shows it."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import text

from service.store.turnover_rows import read_turnover_seconds
from tests.integration.dispatch.site import START, Site, Unit


def turnovers(site: Site, since: float = -1) -> list[float]:
    with site.engine.connect() as conn:
        return sorted(read_turnover_seconds(conn, since=START + timedelta(seconds=since)))


def submitted_at(site: Site, unit: Unit, seconds: float) -> None:
    with site.engine.begin() as conn:
        conn.execute(
            text("UPDATE groups SET submitted_at = :at WHERE id = :id"),
            {"at": START + timedelta(seconds=seconds), "id": unit.group_id},
        )


def test_the_time_between_two_groups_counts_for_each_gpu_that_they_share(site: Site) -> None:
    site.admit("first", [("n1", (0, 1))])
    site.pass_at(1)
    site.clock.advance(9)
    site.cluster.end("first")
    site.pass_at(11)
    assert turnovers(site) == []

    second = site.admit("second", [("n1", (1, 2))])
    submitted_at(site, second, 5)
    site.pass_at(12.5)
    assert turnovers(site) == [2.5]
    assert turnovers(site, since=20) == []

    site.cluster.end("second")
    site.pass_at(13)
    # It comes when the GPUs have been free for long: nobody was late.
    late = site.admit("late", [("n1", (1,))])
    submitted_at(site, late, 100)
    site.pass_at(101)
    assert turnovers(site) == [2.5]
