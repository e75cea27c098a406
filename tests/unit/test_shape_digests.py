"""Digests name shapes for ever: what a shape may say besides changes none of those that do not say it."""

from __future__ import annotations

from service.store.shapes import shape_digest
from tests.builders import gang, role


def test_the_digest_of_a_shape_that_says_nothing_new_stays() -> None:
    plain = gang(
        1, role(2, 4, models=["mx"], labels={"zone": "z1"}), role(1, 0, name="head"), required="rack"
    )
    assert (
        shape_digest(plain.shape).hex() == "fea87c21cc91e33ee68d8179f3555285ca2f7dbed685d8581e09ad9cd2c723c1"
    )


def test_how_long_a_model_is_waited_for_is_part_of_a_shape() -> None:
    digests = {
        shape_digest(gang(1, role(1, 1, models=["mx", "my"], fallback=seconds)).shape)
        for seconds in (0, 60, 90)
    }
    assert len(digests) == 3
