"""What is not eligible: it is listed at its place, is not admitted, and blocks nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.admission.waiting.eligibility import is_eligible, is_plain, waits_until
from service.admission.world import PendingUnit
from service.domain.queue import Order
from tests.builders import NOW, after, gang, node, queue, role, site, submitted

ROW = gang(1).row


@pytest.mark.parametrize(
    ("row", "is_now", "is_ever_plain"),
    [
        (ROW, True, True),
        (replace(ROW, is_held=True), False, False),
        (replace(ROW, open_dependencies=2), False, False),
        (replace(ROW, backoff_until=after(1)), False, False),
        (replace(ROW, backoff_until=NOW), True, False),
        (replace(ROW, not_before_at=after(1)), False, False),
        (replace(ROW, not_before_at=NOW), True, False),
        (replace(ROW, backoff_until=after(-5), not_before_at=after(5)), False, False),
        (replace(ROW, backoff_until=after(5), not_before_at=after(-5)), False, False),
        (replace(ROW, not_before_at=after(-5), open_dependencies=1), False, False),
    ],
)
def test_who_takes_part(row: PendingUnit, is_now: bool, is_ever_plain: bool) -> None:
    assert is_eligible(row, NOW) is is_now
    assert is_plain(row) is is_ever_plain


def test_it_waits_until_the_later_of_two_instants() -> None:
    assert waits_until(ROW) is None
    assert waits_until(replace(ROW, backoff_until=after(1))) == after(1)
    assert waits_until(replace(ROW, not_before_at=after(2))) == after(2)
    assert waits_until(replace(ROW, backoff_until=after(1), not_before_at=after(2))) == after(2)


def test_a_strict_queue_goes_on_behind_what_waits_for_something_else() -> None:
    one = site(
        [node(1, 2)],
        [queue(order=Order.STRICT)],
        gang(1, role(1, 2), priority=9, open_dependencies=1),
        gang(2, role(1, 2), priority=8, not_before_at=after(60)),
        gang(3, role(1, 1)),
    )
    assert [each.group_id for each in one.cycle().admissions] == [3]
    assert one.order() == [1, 2]
    assert one.world.next_wake(NOW) == after(60)


def test_the_instant_has_come() -> None:
    one = site([node(1, 2)], [queue()], gang(1, role(1, 1), not_before_at=after(60)))
    assert one.cycle(59).admissions == ()
    assert one.world.next_wake(after(59)) == after(60)
    assert [each.group_id for each in one.cycle(60).admissions] == [1]
    assert one.world.next_wake(after(60)) is None


def test_what_it_waits_for_has_ended() -> None:
    waits = gang(1, role(1, 1), open_dependencies=1, not_before_at=after(5))
    one = site([node(1, 2)], [queue()], waits)
    assert one.cycle(10).admissions == ()
    # The clock alone changes nothing.
    assert one.world.next_wake(NOW) is None
    met = replace(waits, row=replace(waits.row, open_dependencies=0, version=2))
    one.world.apply(submitted(met))
    assert [each.group_id for each in one.cycle(10).admissions] == [1]
