"""Keys that are there twice are found, whatever the texts look like."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from service.wire.repeated_keys import find_repeated_key


class _Object(list[tuple[str, Any]]):
    """With its keys as they are written, some of them twice."""


_TEXTS = st.text(st.sampled_from('ab":\\ {}[],\n\u00e9'), max_size=6)
_VALUES = st.recursive(
    _TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(_TEXTS, inner), max_size=4).map(_Object),
    max_leaves=20,
)


def _written(value: Any, colon: str) -> str:
    if isinstance(value, _Object):
        pairs = (f"{json.dumps(key)}{colon}{_written(each, colon)}" for key, each in value)
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_written(each, colon) for each in value) + "]"
    return json.dumps(value)


def _has_twice(value: Any) -> bool:
    if isinstance(value, _Object):
        keys = [key for key, _ in value]
        return len(set(keys)) < len(keys) or any(_has_twice(each) for _, each in value)
    return isinstance(value, list) and any(_has_twice(each) for each in value)


@example(_Object([("a", ":"), ("a", ":b")]), " : ")
@example(_Object([("a", "\\"), ("a", ":b")]), ":")
@given(_VALUES, st.sampled_from([":", ": ", " : ", "\n:"]))
def test_whatever_the_texts_look_like(value: Any, colon: str) -> None:
    found = find_repeated_key(_written(value, colon).encode())
    assert (found is not None) == _has_twice(value)
