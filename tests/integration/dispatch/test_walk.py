"""The plain walk of a unit: launched, ready, ended, released."""

from __future__ import annotations

from tests.integration.dispatch.site import Site


def test_a_gang_is_launched_whole_and_runs(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0, 1)), ("n2", (3,)), ("n1", (2,))], secrets={"TOKEN": "hush"})

    site.pass_at(1)

    assert site.status(unit) == "Running"
    assert site.attempt(unit).dispatch == "Launched"
    assert site.events(unit) == ["Starting", "Running"]
    sent = site.sent(unit)
    assert [(m.rank, m.world_size, m.local_rank, m.node, m.devices) for m in sent] == [
        (0, 3, 0, "n1", (0, 1)),
        (1, 3, 0, "n2", (3,)),
        (2, 3, 1, "n1", (2,)),
    ]
    assert {m.secrets["TOKEN"] for m in sent} == {"hush"}
    assert "TOKEN" not in sent[0].env


def test_members_of_an_independent_group_are_told_which_of_all_they_are(site: Site) -> None:
    unit = site.admit("g1", [("n1", (2,))], index=7)

    site.pass_at(1)

    (sent,) = site.sent(unit)
    assert (sent.key.member, sent.member_count) == (7, 10)
    # To a library that looks for others it is alone.
    assert (sent.rank, sent.world_size, sent.local_rank) == (0, 1, 0)


def test_members_that_end_well_one_by_one_end_the_unit_once(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n1", (1,))], secrets={"TOKEN": "hush"})
    site.pass_at(1)

    site.cluster.end("g1", member=0)
    site.pass_at(2)
    assert site.status(unit) == "Running"
    assert site.held(unit) == 2

    rings = site.rings
    site.clock.advance(8)
    site.cluster.end("g1", member=1)
    site.pass_at(20)

    assert site.status(unit) == "Succeeded"
    assert site.unit(unit).ended_at == site.clock.now().replace(second=10)
    assert site.held() == 0
    assert site.attempt(unit) is None
    assert site.rings > rings
    closed = site.rows("SELECT * FROM closed_attempts")
    assert [(row.outcome, row.gpu_seconds, row.generation) for row in closed] == [("Succeeded", 20.0, 1)]
    assert closed[0].closed_at == site.clock.now()
    assert site.rows("SELECT secrets FROM group_specs")[0].secrets is None
    assert site.events(unit) == ["Starting", "Running", "MemberEnded", "MemberEnded", "Succeeded"]


def test_an_end_that_is_reported_again_changes_nothing(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))])
    site.pass_at(1)
    ended = site.cluster.end("g1")
    site.pass_at(2)
    before = site.unit(unit)

    site.cluster.report_again(ended)
    site.pass_at(3)
    site.restart()
    site.cluster.report_again(ended)
    site.pass_at(4)

    assert site.unit(unit) == before
    assert site.events(unit).count("Succeeded") == 1
    assert site.events(unit).count("MemberEnded") == 1
    assert len(site.rows("SELECT * FROM member_ends")) == 1


def test_what_started_and_ended_between_two_looks_has_every_event(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,))], command=("simulate", "--seconds", "0"))

    site.pass_at(1)

    assert site.status(unit) == "Succeeded"
    assert site.events(unit) == ["MemberEnded", "Starting", "Running", "Succeeded"]


def test_a_restarted_dispatcher_adopts_what_runs(site: Site) -> None:
    unit = site.admit("g1", [("n1", (0,)), ("n2", (0,))])
    site.pass_at(1)

    site.restart()
    site.pass_at(2)

    assert site.status(unit) == "Running"
    assert site.launched(unit) == 2
    assert site.cluster.records.stopped_members() == 0
