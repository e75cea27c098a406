"""Members of running groups come and go: launched once, closed before their places are given back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from service.admission.plan import Resize
from service.domain.node import Place
from service.domain.principal import KeyRole, Principal
from service.operations.read_members import list_members
from service.store.begin import own_begin
from service.store.places import places_of
from service.store.resizes import read_resized, write_resizes
from tests.integration.dispatch.site import START, Site, Unit
from workers.launchers.base import LauncherUnreachable, MemberClosing, Outcome
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_behaviour import Exit


def resize(site: Site, unit: Unit, *, devices: Sequence[int] = (), dropped: Sequence[int] = ()) -> bool:
    """As the leader books it: members on these devices of n2 come, or those with these numbers go. False if
    the unit was not as it was planned for."""
    attempt = site.attempt(unit)
    places = places_of(attempt.places)
    first = max(place.member for place in places) + 1
    node = site.node_ids()["n2"]
    added = tuple(Place(first + number, 0, node, (device,)) for number, device in enumerate(devices))
    goes = tuple(place for place in places if place.member in dropped)
    wanted = Resize(
        unit_id=unit.id,
        attempt=attempt.attempt,
        revision=attempt.revision + 1,
        pool_id=attempt.pool_id,
        places=(*places, *added),
        added=added,
        dropped=goes,
        usage={"mx": len(places) + len(added)},
        usage_without={"mx": len(places) - len(goes)},
    )
    [fence] = site.rows("SELECT epoch, version FROM leadership, config")
    with site.engine.connect() as conn, own_begin(conn) as driver:
        driver.execute("BEGIN")
        written = write_resizes(
            driver, [wanted], epoch=fence.epoch, config_version=fence.version, now=site.clock.now()
        )
        resized = read_resized(written)
        driver.commit()
    return resized == {unit.id}


def running(site: Site, name: str = "g1", *, members: int = 2, first: int = 0, **more: Any) -> Unit:
    """On GPUs of n1, from the first that is given."""
    unit = site.admit(name, [("n1", (first + number,)) for number in range(members)], **more)
    with site.engine.begin() as conn:
        conn.exec_driver_sql("UPDATE attempts SET is_resizable = true")
    site.pass_at(1)
    assert site.status(unit) == "Running"
    return unit


def live(site: Site, name: str = "g1") -> list[int]:
    return sorted(key.member for key in site.cluster.live_members(name))


def listed(site: Site, unit: Unit) -> dict[int, str]:
    """Members as their owner sees them, with their status."""
    [row] = site.rows("SELECT public_id FROM groups WHERE id = :id", id=unit.group_id)
    owner = Principal(user="alice", tenant="t", role=KeyRole.USER)
    page = list_members(site.engine, row.public_id, principal=owner)
    return {member.member: member.status.value for member in page.members}


def test_what_is_added_is_launched_beside_what_runs(site: Site) -> None:
    unit = running(site)
    assert resize(site, unit, devices=(0, 1))
    assert (site.held(unit), live(site)) == (4, [0, 1])
    site.pass_at(10)
    attempt = site.attempt(unit)
    assert (live(site), site.launched(unit)) == ([0, 1, 2, 3], 4)
    assert (attempt.revision, attempt.generation, attempt.adding, attempt.dispatches) == (2, 1, None, 1)
    assert [(one.key.member, one.rank, one.world_size) for one in site.sent(unit)[2:]] == [
        (2, 2, 4),
        (3, 3, 4),
    ]
    assert site.events(unit)[-2:] == ["Resized", "ResizeDone"]
    for seconds in (20, 21):
        site.pass_at(seconds)
    assert site.launched(unit) == 4


def test_it_succeeds_when_all_members_that_it_has_ended_well(site: Site) -> None:
    unit = running(site)
    resize(site, unit, devices=(0,))
    site.pass_at(10)
    site.cluster.end("g1")
    site.pass_at(20)
    assert (site.status(unit), site.held()) == ("Succeeded", 0)
    [closed] = site.rows("SELECT usage, held_before FROM closed_attempts")
    assert closed.usage == {"mx": 3}
    assert [each["usage"] for each in closed.held_before] == [{"mx": 2}]


def test_what_is_given_up_is_held_until_its_members_are_gone(site: Site) -> None:
    unit = running(site, members=4, grace_seconds=20)
    site.cluster.behave("g1", exits=Exit.AFTER_GRACE)
    site.pass_at(5)
    resize(site, unit, dropped=(2, 3))
    site.pass_at(6)
    site.restart()
    site.pass_at(24)
    assert (site.held(unit), live(site), site.status(unit)) == (4, [0, 1, 2, 3], "Running")
    assert listed(site, unit) == {0: "Running", 1: "Running", 2: "Evicting", 3: "Evicting"}
    site.pass_at(26)
    attempt = site.attempt(unit)
    assert (site.held(unit), live(site), site.status(unit)) == (2, [0, 1], "Running")
    assert (attempt.usage, attempt.dropping, attempt.usage_without) == ({"mx": 2}, None, None)
    assert [place[0] for place in attempt.places] == [0, 1]
    assert site.events(unit)[-2:] == ["Resized", "ResizeDone"]
    assert site.rows("SELECT FROM member_ends") == []
    assert site.rings
    # T1: what was given up is missed by nobody.
    site.pass_at(200)
    assert (site.status(unit), live(site)) == ("Running", [0, 1])


def test_a_late_launch_of_what_was_given_up_is_refused_until_it_is_placed_again(site: Site) -> None:
    unit = running(site, members=3)
    [late] = [one for one in site.sent(unit) if one.key.member == 2]
    resize(site, unit, dropped=(2,))
    site.pass_at(10)
    launcher = SimulatedLauncher(site.cluster, "p1")
    [refused] = launcher.launch([late])
    assert (refused.outcome, live(site)) == (Outcome.REFUSED, [0, 1])
    assert resize(site, unit, devices=(5,))
    site.pass_at(20)
    assert live(site) == [0, 1, 2]
    [again] = [one for one in site.sent(unit) if one.key.member == 2 and one.node == "n2"]
    assert (again.revision, again.devices) == (3, (5,))


def test_members_that_cannot_start_are_given_up_again_and_the_others_run_on(site: Site) -> None:
    unit = running(site)
    site.cluster.behave("g1", refuses=True, message="no image")
    resize(site, unit, devices=(0, 1))
    site.pass_at(10)
    attempt = site.attempt(unit)
    assert (site.status(unit), live(site), site.held(unit)) == ("Running", [0, 1], 2)
    assert (attempt.usage, attempt.adding, attempt.dropping, attempt.revision) == ({"mx": 2}, None, None, 3)
    assert site.events(unit)[-3:] == ["Resized", "ResizeRefused", "ResizeDone"]


def test_a_group_that_starts_again_in_place_starts_with_the_members_that_it_has(site: Site) -> None:
    unit = running(site, members=4, grace_seconds=30)
    site.cluster.behave("g1", exits=Exit.AFTER_GRACE)
    site.pass_at(5)
    resize(site, unit, dropped=(3,))
    site.pass_at(6)
    site.cluster.end("g1", member=0, exit_code=1)
    site.cluster.behave("g1", exits=Exit.AT_ONCE)
    for seconds in (7, 38, 39, 60):
        site.pass_at(seconds)
    attempt = site.attempt(unit)
    assert (site.status(unit), attempt.generation, live(site)) == ("Running", 2, [0, 1, 2])
    assert (site.held(unit), attempt.dropping) == (3, None)


def test_a_restart_in_place_also_starts_what_was_just_added(site: Site) -> None:
    unit = running(site)
    site.cluster.end("g1", member=0, exit_code=1)
    resize(site, unit, devices=(0,))
    for seconds in (10, 11, 12):
        site.pass_at(seconds)
    attempt = site.attempt(unit)
    assert (site.status(unit), attempt.generation, attempt.adding) == ("Running", 2, None)
    assert live(site) == [0, 1, 2]


def test_a_cancelled_group_gives_everything_back_whatever_was_under_way(site: Site) -> None:
    growing, shrinking = running(site), running(site, "g2", first=4)
    resize(site, growing, devices=(4,))
    resize(site, shrinking, dropped=(1,))
    site.cancel(growing)
    site.cancel(shrinking)
    site.pass_at(10)
    assert (site.status(growing), site.status(shrinking), site.held()) == ("Cancelled", "Cancelled", 0)
    assert (live(site), live(site, "g2")) == ([], [])


def test_of_two_resizes_one_is_booked_and_none_of_a_group_that_leaves(site: Site) -> None:
    unit = running(site)
    assert resize(site, unit, devices=(0,))
    assert not resize(site, unit, devices=(1,))
    site.pass_at(10)
    site.cluster.behave("g1", exits=Exit.WHEN_TOLD)
    site.cancel(unit)
    assert not resize(site, unit, devices=(1,))
    assert site.held(unit) == 3


class _Cut(SimulatedLauncher):
    """The answer to one call is lost, after it was carried out."""

    cut: str = ""

    def launch(self, members: Any) -> Any:
        answers = super().launch(members)
        self._lose("launch")
        return answers

    def close_members(self, members: Sequence[MemberClosing]) -> Sequence[bool]:
        answers = super().close_members(members)
        self._lose("close_members")
        return answers

    def _lose(self, name: str) -> None:
        if _Cut.cut == name:
            _Cut.cut = ""
            raise LauncherUnreachable(f"the answer to {name} is lost")


@pytest.mark.parametrize(("call", "members"), [("launch", [0, 1, 2, 3]), ("close_members", [0])])
def test_a_dispatcher_that_dies_behind_the_call_has_it_carried_out_once(
    site: Site, call: str, members: list[int]
) -> None:
    unit = running(site)
    site.dispatcher.close()
    first = site.make_dispatcher("d3", wrap=lambda _: _Cut(site.cluster, "p1"))
    if call == "launch":
        resize(site, unit, devices=(0, 1))
    else:
        resize(site, unit, dropped=(1,))
    _Cut.cut = call
    site.clock.move_to(START.replace(second=30))
    first.pass_once()
    assert _Cut.cut == ""
    first.close()
    site.dispatcher = site.make_dispatcher("d4")
    site.pass_at(60)
    assert (live(site), site.held(unit), site.launched(unit)) == (members, len(members), max(2, len(members)))
    assert site.status(unit) == "Running"
