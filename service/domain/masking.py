"""What is never shown: values whose names say that they are secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MASK = "***"
_MASK_BYTES = MASK.encode()
_SHORTEST = 4
_HEAD_BYTES = 8

_SENSITIVE = re.compile(
    r"token|secret|passw|passphrase|pwd|credential|api_?key|access_?key|private_?key|auth|cookie|session_?key"
    r"|(^|_)key$|dsn|connection_?string",
    re.IGNORECASE,
)


def is_sensitive(name: str) -> bool:
    """Whether the value of a variable of this name is treated as a secret."""
    return _SENSITIVE.search(name.replace("-", "_")) is not None


def mask_text(text: str, values: Iterable[str]) -> str:
    """`text` without any of `values`. The longest go first, so that no part of one is left. Values of
    fewer than four bytes are left alone, as in a stream."""
    for value in sorted(filter(_is_maskable, values), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def _is_maskable(value: str) -> bool:
    """Shorter ones would tear every text apart, and are no secrets."""
    return len(value.encode()) >= _SHORTEST


def split_env(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The variables that may be shown, and those that may not."""
    shown = {name: value for name, value in env.items() if not is_sensitive(name)}
    hidden = {name: value for name, value in env.items() if is_sensitive(name)}
    return shown, hidden


class StreamMask:
    """Takes values out of a stream of bytes that comes in pieces of any size. What could be the
    beginning of a value is kept back until more has come. Values of fewer than four bytes are left
    alone."""

    def __init__(self, values: Iterable[str]) -> None:
        maskable = {value.encode() for value in values if _is_maskable(value)}
        self._values = sorted(maskable, key=len, reverse=True)
        self._beginnings = [_Beginning(value) for value in self._values]
        self._any = re.compile(b"|".join(map(re.escape, self._values))) if self._values else None
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What may be shown now."""
        if self._any is None:
            return piece
        text, self._held = self._held + piece, b""
        shown, done, open_from = [], 0, self._open_from(text, 0)
        for match in self._any.finditer(text):
            if match.start() >= open_from:
                break
            shown += [text[done : match.start()], _MASK_BYTES]
            done = match.end()
        open_from = max(done, self._open_from(text, done))
        self._held = text[open_from:]
        return b"".join((*shown, text[done:open_from]))

    def rest(self) -> bytes:
        """What was kept back: nothing more will come."""
        held, self._held = self._held, b""
        return self._any.sub(_MASK_BYTES, held) if self._any else held

    def _open_from(self, text: bytes, first: int) -> int:
        """Where the longest end of `text` begins that may grow into a value."""
        return len(text) - max(beginning.length_at_end(text, first) for beginning in self._beginnings)


class _Beginning:
    """Finds beginnings of one value at the end of a text, in time that grows with its length alone."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._head = value[:_HEAD_BYTES]
        self._borders = _borders(value)

    def length_at_end(self, text: bytes, first: int) -> int:
        """How many bytes at the end of `text`, but none before `first`, begin the value without being it."""
        first = max(first, len(text) - len(self._value) + 1)
        # Nearly always nothing there looks like it, which a search tells at once.
        found = text.find(self._head, first)
        length = 0
        for byte in text[found if found >= 0 else max(first, len(text) - len(self._head) + 1) :]:
            length = _longer(self._value, self._borders, length=length, byte=byte)
        return length


def _borders(value: bytes) -> list[int]:
    """For each beginning of `value`: the length of its longest true end that begins `value` too."""
    borders = [0] * len(value)
    for index in range(1, len(value)):
        borders[index] = _longer(value, borders, length=borders[index - 1], byte=value[index])
    return borders


def _longer(value: bytes, borders: list[int], *, length: int, byte: int) -> int:
    """How much of `value` the text ends with once `byte` is added, if it ended with `length` before."""
    while length and value[length] != byte:
        length = borders[length - 1]
    return length + 1 if value[length] == byte else 0
