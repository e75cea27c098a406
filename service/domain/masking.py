"""What is never shown: values whose names say that they are secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MASK = "***"
_MASK_BYTES = MASK.encode()
_SHORTEST = 4

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
        for start in range(max(first, len(text) - len(self._values[0]) + 1), len(text)):
            if any(value.startswith(text[start:]) for value in self._values):
                return start
        return len(text)
