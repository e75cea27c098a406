"""Which entry of a map is wrong: msgspec writes `[...]` for all of them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import msgspec

_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]+)\]")


def find_wrong_key(body: bytes, kind: Any, path: str, *, sentence: str) -> str | None:
    """The key of the entry that msgspec's `sentence` is about. `path` leads to the map: `$.groups[3].env`.

    Each entry is tried alone, with nothing else in the lists on the way, so that one group of a batch and
    not the whole is read again for each. None if none of them is wrong alone.
    """
    steps = [name or int(index) for name, index in _STEP.findall(path)]
    try:
        document = msgspec.json.decode(body)
        owner = _only(document, steps)
        entries = owner[steps[-1]].items()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError, AttributeError):
        return None  # broken behind the entry, or the way is said twice
    for key, value in entries:
        owner[steps[-1]] = {key: value}
        try:
            msgspec.convert(document, kind)
        except msgspec.ValidationError as error:
            if _place_in(str(error)) == _place_in(sentence):
                return str(key)
    return None


def _only(document: Any, steps: list[str | int]) -> Any:
    """Cut every list on the way to the one element that the way leads through; return what holds the map."""
    here = document
    for step, following in pairwise(steps):
        if isinstance(following, int):
            here[step] = [here[step][following]]
        here = here[0 if isinstance(step, int) else step]
    return here


def _place_in(sentence: str) -> str:
    return re.sub(r"\[[0-9]+\]", "[]", sentence.rpartition(" - at ")[2])
