"""Durations as people write them: `90s`, `10m`, `4h30m`, `2d`."""

from __future__ import annotations

import re

#: A year: longer than any deadline means something, and no sum of instants can overflow.
MAX_SECONDS = 366 * 86400

PATTERN = r"^(\d{1,9}d)?(\d{1,9}h)?(\d{1,9}m)?(\d{1,9}s)?$"
_SHAPE = re.compile(PATTERN)
_SECONDS = (86400, 3600, 60, 1)


def parse_duration(text: str) -> int:
    """Seconds of `text`, units from large to small. ValueError if it is not a duration."""
    match = _SHAPE.match(text)
    parts = match.groups() if match else ()
    if not any(parts):
        raise ValueError("a duration is a number of seconds, or text such as 90s, 10m, 4h30m or 2d")
    return sum(int(part[:-1]) * size for part, size in zip(parts, _SECONDS, strict=True) if part)


def duration_text(seconds: int) -> str:
    """The shortest text that parse_duration reads as `seconds`: 5400 is `1h30m`."""
    text = ""
    for size, unit in zip(_SECONDS, "dhms", strict=True):
        amount, seconds = divmod(seconds, size)
        text += f"{amount}{unit}" if amount else ""
    return text or "0s"
