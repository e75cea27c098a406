"""Keys that an object of a body says twice: a decoder takes the last of them in silence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

#: A text, and the colon behind it if it is a key.
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"\s*(:?)', re.DOTALL)
_SPACED_KEY = re.compile(rb'"\s+:')


def find_repeated_key(body: bytes) -> str | None:
    """The path of a key that is there twice, such as `groups[3].env.LR`. `body` is valid JSON.

    Keys are counted as they came and as a decoder keeps them, which is a fraction of what decoding them into
    their types takes; only a body that has lost one is looked at key by key."""
    kept = msgspec.json.encode(msgspec.json.decode(body))
    # Both in the same way: the fast one takes a text that begins with a colon for a key.
    is_plain = b"\\" not in body and b"\\" not in kept and _SPACED_KEY.search(body) is None
    count = _count_plain if is_plain else _count
    if count(body) == count(kept):
        return None
    return next(_repeated(json.loads(body, object_pairs_hook=_Pairs), ""), None)


def _count_plain(body: bytes) -> int:
    """How many keys are written in it, and how many texts begin with a colon: no text has a quote in it, and
    no key has a space behind it."""
    return body.count(b'":')


def _count(body: bytes) -> int:
    """How many keys are written in it."""
    return _TEXT.findall(body).count(b":")


class _Pairs(list[tuple[str, Any]]):
    """An object with all of its keys, in order."""


def _repeated(value: Any, path: str) -> Iterator[str]:
    """Paths of keys that are there twice, outermost first."""
    if isinstance(value, _Pairs):
        entries = [(f"{path}.{key}" if path else key, each) for key, each in value]
        seen: set[str] = set()
        for name, _ in entries:
            if name in seen:
                yield name
            seen.add(name)
    elif isinstance(value, list):
        entries = [(f"{path}[{index}]", each) for index, each in enumerate(value)]
    else:
        return
    for name, each in entries:
        yield from _repeated(each, name)
