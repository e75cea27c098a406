"""Texts of a body that hold half of a surrogate pair, such as `"\\ud800"`: no text of Unicode has one, and a
decoder says of it what it likes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_WRITTEN = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")


def find_half_pair(body: bytes) -> str | None:
    """The path of the first such text, such as `command[0]`, empty for the whole body; of a key, the path of
    its object. None if there is none, or the rest of `body` is no JSON. Raises RecursionError if it is nested
    too deeply."""
    if _WRITTEN.search(body) is None:
        return None
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return next(_halves(value, ""), None)


def _halves(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str):
        if _HALF.search(value):
            yield path
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _halves(each, f"{path}[{index}]")
    elif isinstance(value, dict):
        if any(_HALF.search(key) for key in value):
            yield path
        for key, each in value.items():
            yield from _halves(each, f"{path}.{key}" if path else key)
