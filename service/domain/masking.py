"""What is never shown: values whose names say that they are secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MASK = "***"

_SENSITIVE = re.compile(
    r"token|secret|passw|passphrase|pwd|credential|api_?key|access_?key|private_?key|auth|cookie|session_?key"
    r"|(^|_)key$|dsn|connection_?string",
    re.IGNORECASE,
)


def is_sensitive(name: str) -> bool:
    """Whether the value of a variable of this name is treated as a secret."""
    return _SENSITIVE.search(name.replace("-", "_")) is not None


def mask_text(text: str, values: Iterable[str]) -> str:
    """`text` without any of `values`. The longest go first, so that no part of one is left."""
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def split_env(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The variables that may be shown, and those that may not."""
    shown = {name: value for name, value in env.items() if not is_sensitive(name)}
    hidden = {name: value for name, value in env.items() if is_sensitive(name)}
    return shown, hidden
