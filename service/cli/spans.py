"""Times and amounts in few characters."""

from __future__ import annotations

from datetime import datetime

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def span(seconds: float) -> str:
    """The two largest units: `4s`, `2m 10s`, `3h`, `5d 2h`."""
    left = max(0, round(seconds))
    parts: list[str] = []
    for size, unit in _UNITS:
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{amount}{unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0s"


def between(start: datetime | None, end: datetime | None) -> str:
    """The time from `start` to `end`; empty if one is not known."""
    return "" if start is None or end is None else span((end - start).total_seconds())


def instant(at: datetime | None) -> str:
    """RFC 3339 to the second, for programs; empty for None."""
    return "" if at is None else at.isoformat(timespec="seconds")


def clock_time(at: datetime, *, today: datetime) -> str:
    """Here: the time of day, with the date if it is not today's."""
    at, today = at.astimezone(), today.astimezone()
    return f"{at:%H:%M:%S}" if at.date() == today.date() else f"{at:%Y-%m-%d %H:%M}"


def number(amount: float) -> str:
    """Without a fraction where there is none."""
    return f"{amount:g}" if amount < 1_000_000 else f"{amount:.0f}"
