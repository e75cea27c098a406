"""When a group that waits is likely to start: by how long groups like those in its way ran, or by how long
others waited. Likely, not promised: claims and dates rest on enforced ends alone.

Of what has gone on for a while already only those say something that went on for longer (Tsafrir, Etsion and
Feitelson 2007 correct their predictions in the same way once a job outlives them).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

#: Fewer samples than this say nothing.
FEWEST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Of one instant: as likely as not until `p50_at`, and nine times in ten until `p90_at`. None: nothing is
    known."""

    p50_at: datetime | None
    p90_at: datetime | None

    def not_after(self, latest: datetime | None) -> Quantiles:
        """With what is planned, if anything is: who holds places may have to give them up before its end."""
        if latest is None:
            return self
        return Quantiles(
            p50_at=latest if self.p50_at is None else min(self.p50_at, latest),
            p90_at=latest if self.p90_at is None else min(self.p90_at, latest),
        )

    def not_before(self, earliest: datetime) -> Quantiles:
        return Quantiles(
            p50_at=None if self.p50_at is None else max(self.p50_at, earliest),
            p90_at=None if self.p90_at is None else max(self.p90_at, earliest),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InTheWay:
    """Who holds something that is kept for another. `runtimes`, in seconds, are of groups like it, sorted;
    `since`: when it began to run, or was admitted; `frees_at`: its enforced end."""

    since: datetime
    frees_at: datetime | None
    runtimes: Sequence[float]

    def is_known(self, now: datetime) -> bool:
        """Whether groups like it say something of how much longer it runs."""
        return bool(_longer(self.runtimes, now - self.since))


def forecast_end(holders: Collection[InTheWay], now: datetime) -> Quantiles:
    """When all of them are gone. Each is taken by itself, so the later quantile is on the safe side."""
    p50s = [_likely_end(each, now, 0.5) for each in holders]
    p90s = [_likely_end(each, now, 0.9) for each in holders]
    return Quantiles(p50_at=_latest(p50s, now), p90_at=_latest(p90s, now))


def forecast_wait(waits: Sequence[float], *, since: datetime, now: datetime) -> Quantiles:
    """`waits`, in seconds, of those that started, sorted; the group waits `since`."""
    waited = now - since
    return Quantiles(p50_at=_after(waits, waited, now, 0.5), p90_at=_after(waits, waited, now, 0.9))


def _likely_end(holder: InTheWay, now: datetime, share: float) -> datetime | None:
    likely = _after(holder.runtimes, now - holder.since, now, share)
    bounds = [at for at in (likely, holder.frees_at) if at is not None]
    return max(now, min(bounds)) if bounds else None


def _latest(ends: Sequence[datetime | None], now: datetime) -> datetime | None:
    known = [end for end in ends if end is not None]
    return max(known, default=now) if len(known) == len(ends) else None


def _after(samples: Sequence[float], gone: timedelta, now: datetime, share: float) -> datetime | None:
    """The quantile of what is still to come, by nearest rank among those that went on for longer."""
    longer = _longer(samples, gone)
    if not longer:
        return None
    seconds = longer[ceil(share * len(longer)) - 1]
    return now + timedelta(seconds=seconds) - gone


def _longer(samples: Sequence[float], gone: timedelta) -> Sequence[float]:
    return samples[bisect_right(samples, gone.total_seconds()) :] if len(samples) >= FEWEST else ()
