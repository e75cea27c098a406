"""A profile is cut into parts that add up to the whole."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.profiling import Stacks, shares

LOOP, PASS = "workers/loop.py:Loop.run", "workers/passes.py:Pass.once"
READ, WRITE, RING = "service/a.py:read", "service/b.py:write", "service/c.py:ring"


def test_the_largest_part_is_cut_into_what_it_calls() -> None:
    stacks: Stacks = Counter(
        {(LOOP, PASS, READ): 50, (LOOP, PASS, WRITE): 30, (LOOP, PASS): 10, (LOOP, RING): 10}
    )
    assert shares(stacks) == [
        ("read (service/a.py)", 50.0),
        ("write (service/b.py)", 30.0),
        ("Pass.once (workers/passes.py)", 10.0),
        ("ring (service/c.py)", 10.0),
    ]


def test_what_is_small_is_summed_up() -> None:
    stacks: Stacks = Counter({(LOOP, PASS): 97, (LOOP, READ): 2, (LOOP, WRITE): 1})
    assert shares(stacks) == [("Pass.once (workers/passes.py)", 97.0), ("all else", 3.0)]


@pytest.mark.parametrize("depth", [1, 30])
def test_parts_add_up(depth: int) -> None:
    stacks: Stacks = Counter({(LOOP, *([PASS] * depth), f"f.py:f{n}"): n + 1 for n in range(40)})
    found = shares(stacks)
    assert sum(share for _, share in found) == pytest.approx(100)
    assert len(found) < 41
