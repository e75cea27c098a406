"""What can be sent: checked before it is, since JSON has no form for some of what YAML and Python have."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from service.client.errors import Unsendable

_DEEPEST = 100
#: Aliases of YAML make many values of few bytes.
_MOST_VALUES = 2_000_000
_LARGEST = 1 << 63


def encode_body(body: object) -> bytes:
    """`body` as JSON. Raises Unsendable."""
    check_body(body)
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError) as error:
        raise Unsendable("", f"the request has no form in JSON: {error}") from None


def check_body(body: object) -> None:
    """Raise Unsendable for the first value that would be lost or changed on its way.

    An infinite number among them: as JSON it would be `null`, which lifts a limit.
    """
    waiting: list[tuple[str, int, object]] = [("", 0, body)]
    for _ in range(_MOST_VALUES):
        if not waiting:
            return
        path, depth, value = waiting.pop()
        if fact := _wrong(value):
            raise Unsendable(path, fact)
        if isinstance(value, Mapping):
            _check_names(path, value)
        if depth > _DEEPEST:
            raise Unsendable(path[:100], f"more than {_DEEPEST} values lie in one another")
        waiting += _inner(path, depth + 1, value)
    raise Unsendable("", f"these are more than {_MOST_VALUES} values")


def _check_names(path: str, value: Mapping[object, object]) -> None:
    """JSON would have no form for a name, or another one than was read: `1.10` would be 1.1."""
    for name in value:
        if not isinstance(name, str) and (isinstance(name, bool) or not isinstance(name, int)):
            said = "null" if name is None else str(name).lower() if isinstance(name, bool) else str(name)
            raise Unsendable(path, f"has the name {said}, which is no text; write it in quotes")


def _wrong(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number"
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return "is a number of more than 64 bits"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return "holds half a character"
    return ""


def _inner(path: str, depth: int, value: object) -> list[tuple[str, int, object]]:
    """The parts of a value, the last first, so that the first is looked at next."""
    if isinstance(value, Mapping):
        parts = [(f"{path}.{name}" if path else str(name), depth, part) for name, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}[{index}]", depth, part) for index, part in enumerate(value)]
    else:
        return []
    return parts[::-1]
