"""The log of when guards stood still, and the clock that is read from it."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from service.admission.pauses import (
    EVERYBODY,
    NOBODY,
    Clock,
    Halted,
    Pauses,
    clock_of,
    next_pauses,
    without_old,
)
from tests.builders import NOW, after

#: Ninety-six slots of ten seconds.
GUARD = 960.0
ONE, TWO = Halted((1,)), Halted((1, 2))


def waits_ever(_: int) -> bool:
    return True


def log(*steps: tuple[float, Halted]) -> Pauses:
    pauses: Pauses = ()
    for seconds, halted in steps:
        pauses = next_pauses(
            pauses, halted, queue_id=1, now=after(seconds), guard_seconds=GUARD, is_waiting=waits_ever
        )
    return pauses


def spans(pauses: Pauses) -> list[tuple[float, float | None, Halted]]:
    return [
        (
            (pause.began_at - NOW).total_seconds(),
            None if pause.ended_at is None else (pause.ended_at - NOW).total_seconds(),
            pause.halted,
        )
        for pause in pauses
    ]


def read(pauses: Pauses, shape_id: int = 1, unit_id: int = 10, *, since: float = 0) -> Clock:
    return clock_of(pauses, shape_id, unit_id, since=after(since), guard=timedelta(seconds=GUARD))


def test_what_is_as_before_is_not_noted() -> None:
    assert log((0, NOBODY)) == ()
    pauses = log((0, ONE))
    assert (
        next_pauses(pauses, ONE, queue_id=1, now=after(50), guard_seconds=GUARD, is_waiting=waits_ever)
        is pauses
    )


def test_a_clock_that_runs_again_is_noted_at_once() -> None:
    assert spans(log((0, ONE), (3, NOBODY))) == [(0, 3, ONE)]
    assert spans(log((0, TWO), (3, ONE))) == [(0, 3, TWO), (3, None, ONE)]


def test_one_that_stops_is_noted_once_in_a_slot() -> None:
    assert spans(log((0, ONE), (3, NOBODY), (4, ONE), (9, ONE))) == [(0, 3, ONE)]
    assert spans(log((0, ONE), (3, NOBODY), (4, ONE), (10, ONE))) == [(0, 3, ONE), (10, None, ONE)]
    assert spans(log((0, ONE), (4, TWO))) == [(0, None, ONE)]
    assert spans(log((0, ONE), (4, TWO), (11, TWO))) == [(0, 11, ONE), (11, None, TWO)]


def test_in_a_strict_queue_each_head_of_a_slot_is_told_that_it_ran() -> None:
    pauses = log((0, Halted(moving=(10,))), (3, Halted(moving=(11,))))
    assert spans(pauses)[-1] == (3, None, Halted(moving=(10, 11)))


def test_that_a_row_has_left_is_no_change() -> None:
    pauses = log((0, Halted((), (1, 2, 3))))
    left = next_pauses(
        pauses,
        Halted((), (2, 3)),
        queue_id=1,
        now=after(50),
        guard_seconds=GUARD,
        is_waiting=lambda unit_id: unit_id != 1,
    )
    assert left is pauses


def test_heads_that_have_left_are_not_named_for_ever() -> None:
    pauses: Pauses = ()
    for head in range(1, 1000):
        pauses = next_pauses(
            pauses,
            Halted(moving=(head,)),
            queue_id=1,
            now=after(head / 10),
            guard_seconds=GUARD,
            is_waiting=lambda unit_id, head=head: unit_id >= head,  # type: ignore[misc]
        )
    assert pauses[-1].halted.moving == (999,)
    assert max(len(pause.halted.moving or ()) for pause in pauses) <= 2


def test_a_clock_that_was_set_back_notes_nothing() -> None:
    pauses = log((100, ONE))
    assert (
        next_pauses(pauses, NOBODY, queue_id=1, now=after(50), guard_seconds=GUARD, is_waiting=waits_ever)
        is pauses
    )


def test_the_clock_runs_but_in_pauses() -> None:
    assert read(()) == Clock(timedelta(seconds=960), after(960))
    pauses = log((100, ONE), (300, NOBODY))
    assert read(pauses).runs_out_at == after(960 + 200)
    assert read(pauses, shape_id=2).runs_out_at == after(960)
    # It came in the middle of the pause, or after it.
    assert read(pauses, since=250).runs_out_at == after(300 + 960)
    assert read(pauses, since=300).runs_out_at == after(300 + 960)


def test_the_clock_stands_still_while_a_pause_goes_on() -> None:
    pauses = log((100, ONE))
    assert read(pauses) == Clock(timedelta(seconds=860), None)
    # Its guard had run out before.
    assert read(pauses, since=-860).runs_out_at == after(100)
    assert read(log((0, EVERYBODY)), shape_id=7).runs_out_at is None
    head = log((0, Halted(moving=(10,))))
    assert read(head).runs_out_at == after(960)
    assert read(head, unit_id=11).runs_out_at is None
    assert read(log((0, Halted(unit_ids=(10,))))).runs_out_at is None


def test_what_nobody_has_met_is_left_out() -> None:
    pauses = log((0, ONE), (100, NOBODY), (200, ONE))
    assert spans(without_old(pauses, after(100))) == [(200, None, ONE)]
    assert without_old(pauses, after(99)) is pauses


def test_of_too_many_the_oldest_become_one() -> None:
    always, sometimes = Halted((1,)), Halted((1, 2))
    steps = [(20.0 * number, always if number % 2 else sometimes) for number in range(400)]
    pauses = log(*steps)
    assert len(pauses) == 128
    assert pauses[0].began_at == NOW
    # What stood still all the time is told so; of what did not, that it ran.
    assert read(pauses).runs_out_at is None
    assert read(pauses, shape_id=2).runs_out_at is not None


HALTED = st.builds(
    Halted,
    st.sets(st.integers(1, 3)).map(lambda found: tuple(sorted(found))),
    st.sets(st.integers(10, 12)).map(lambda found: tuple(sorted(found))),
    st.none() | st.sets(st.integers(10, 12)).map(lambda found: tuple(sorted(found))),
)
STEPS = st.lists(st.tuples(st.integers(0, 40), HALTED), min_size=1, max_size=40)


@given(steps=STEPS, since=st.integers(0, 200), shape_id=st.integers(1, 3), unit_id=st.integers(10, 12))
def test_no_clock_is_told_that_it_stood_still_while_it_was_seen_to_run(
    steps: list[tuple[int, Halted]], since: int, shape_id: int, unit_id: int
) -> None:
    """So a guard never runs out later than it should."""
    pauses: Pauses = ()
    now, ran, stops = 0, 0.0, False
    for wait, halted in steps:
        if not stops:
            ran += max(0, now + wait - max(now, since))
        now += wait
        pauses = next_pauses(
            pauses, halted, queue_id=1, now=after(now), guard_seconds=GUARD, is_waiting=waits_ever
        )
        assert all(pause.ended_at is not None for pause in pauses[:-1])
        assert all(one.ended_at <= other.began_at for one, other in pairwise(pauses))  # type: ignore[operator]
        stops = halted.stops(shape_id, unit_id)
    clock = clock_of(pauses, shape_id, unit_id, since=after(since), guard=timedelta(days=1))
    until = after(max(now, since))
    left = clock.left if clock.runs_out_at is None else clock.runs_out_at - until
    told = (timedelta(days=1) - left).total_seconds()
    assert ran <= told
