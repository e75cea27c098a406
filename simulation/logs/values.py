"""Texts of a log as values: instants, durations, amounts. A text that says nothing is None."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from simulation.logs.job import Ending

#: What logs write where there is nothing.
NOTHING = frozenset({"", "-", "na", "n/a", "nan", "none", "null", "unknown", "invalid"})

#: Amounts beyond these are errors of the log, and no sum of a million of them leaves 64 bits.
_MOST_SECONDS, _MOST_COUNT = 1e10, 10**9

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_MIB = {"B": 2**-20, "KiB": 2**-10, "MiB": 1.0, "GiB": 1024.0, "TiB": 1024.0 * 1024.0}
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d{1,2})(?::(\d{1,2}(?:\.\d+)?))?\Z")
_SPELT = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[dhms]))+\Z")
_SPELT_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")

_ENDINGS = {
    Ending.SUCCEEDED: "completed complete succeeded success pass passed finished done terminated ok 0",
    Ending.FAILED: "failed failure fail error out_of_memory boot_fail",
    Ending.CANCELLED: "cancelled canceled killed stopped deleted revoked deadline",
    Ending.TIMED_OUT: "timeout timed_out timelimit time_limit",
    Ending.NODE_FAILED: "node_fail node_failed node_failure lost preempted",
}
KNOWN_ENDINGS = {word: ending for ending, words in _ENDINGS.items() for word in words.split()}


def seconds_of(text: str, *, unit: str = "s") -> float:
    """`90`, `1:30`, `2-01:00:00`, `1h30m`; a bare number is in `unit` (ms, s, m, h, d). Raises ValueError."""
    try:
        seconds = float(text) * _SECONDS[unit]
    except ValueError:
        seconds = _spelt_seconds(text)
    if not -_MOST_SECONDS <= seconds <= _MOST_SECONDS:
        raise ValueError("is beyond any duration")
    return seconds


def _spelt_seconds(text: str) -> float:
    if (found := _CLOCK.match(text)) is not None:
        days, first, second, third = found.groups()
        # As Slurm writes it: `2-01:00` are hours and minutes, `01:00` minutes and seconds.
        if third is not None or days is not None:
            hours, minutes, rest = float(first), float(second), float(third or 0)
        else:
            hours, minutes, rest = 0.0, float(first), float(second)
        return float(days or 0) * 86_400 + hours * 3600 + minutes * 60 + rest
    if _SPELT.match(text) is not None:
        return sum(float(amount) * _SECONDS[unit] for amount, unit in _SPELT_PART.findall(text))
    raise ValueError("is no duration")


def instant_reader(
    *,
    start_seconds: float = 0.0,
    zone: tzinfo = UTC,
    unit: str = "s",
    on_no_zone: Callable[[], None] = lambda: None,
) -> Callable[[str], float]:
    """Reads seconds since 1970 from a text: a bare number counts from `start_seconds`, a date without a zone
    is of `zone`, and `on_no_zone` is told of it."""
    factor = _SECONDS[unit]

    def read(text: str) -> float:
        try:
            seconds = start_seconds + float(text) * factor
        except ValueError:
            seconds = _timestamp(text, zone, on_no_zone)
        if not 0 <= seconds <= _MOST_SECONDS * 10:
            raise ValueError("is beyond any date")
        return seconds

    return read


def _timestamp(text: str, zone: tzinfo, on_no_zone: Callable[[], None]) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is no time: neither seconds nor a date such as 2026-01-31T12:00:00") from None
    if at.tzinfo is None:
        on_no_zone()
        at = at.replace(tzinfo=zone)
    return at.timestamp()


def zone_of(name: str) -> tzinfo:
    """`UTC`, or one of the names of the IANA's list. Raises ValueError."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise ValueError(f"{name} is no time zone that is known here, such as Europe/Berlin") from None


def count_of(text: str) -> int:
    """A whole number. `8.0` is one. Raises ValueError."""
    number = _float(text)
    if not math.isfinite(number) or number != int(number) or abs(number) > _MOST_COUNT:
        raise ValueError("is no whole number within bounds")
    return int(number)


def number_of(text: str) -> float:
    """Raises ValueError."""
    number = _float(text)
    if not math.isfinite(number) or abs(number) > 1e12:
        raise ValueError("is no number within bounds")
    return number


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("is no number") from None


def mib_of(text: str, *, unit: str = "MiB") -> int:
    """Raises ValueError."""
    return math.ceil(number_of(text) * _MIB[unit])


@lru_cache(maxsize=4096)
def is_nothing(text: str) -> bool:
    return text.lower() in NOTHING
