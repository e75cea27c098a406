"""How many requests a caller may send: a bucket for each key, and for each address without a valid one.

Counted in this process alone, so Redis may be away and a request pays about a microsecond. Of several API
processes each allows as much.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Hashable

from litestar.types import Scope

from service.api.body import MAX_BODY_BYTES
from service.api.problems import TooManyRequests
from service.api.refusals import Refusals, Refused
from service.settings import Settings

#: A body counts as one request more for each of these.
COUNTED_BYTES = 64 * 1024
#: What is counted for a body that does not say how long it is.
_UNSAID_LENGTH = 1024 * 1024
_MOST_CALLERS = 100_000


class Buckets:
    """Buckets of `burst` requests that fill at `per_second`, one for each caller (the generic cell rate
    algorithm: all that is kept is when a bucket will be full). A rate of 0 refuses nothing."""

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._seconds_each = 1.0 / per_second if per_second > 0 else 0.0
        self._burst = max(1, burst)
        self._depth = self._burst * self._seconds_each
        self._full_at: dict[Hashable, float] = {}

    @property
    def policy(self) -> str:
        """The parameters of RateLimit-Policy: `q` requests in `w` seconds."""
        return f"q={self._burst};w={max(1, round(self._depth))}"

    def take(self, caller: Hashable, requests: int, now: float) -> float:
        """0 if they were there; else the seconds until they are, and nothing is taken."""
        full_at = self._full_at.get(caller, now)
        full_at = max(full_at, now) + min(requests, self._burst) * self._seconds_each
        wait = full_at - now - self._depth
        if wait > 1e-9:
            return wait
        if len(self._full_at) >= _MOST_CALLERS:
            self._forget_full(now)
        self._full_at[caller] = full_at
        return 0.0

    def give_back(self, caller: Hashable) -> None:
        """One request that should not have counted."""
        if caller in self._full_at:
            self._full_at[caller] -= self._seconds_each

    def _forget_full(self, now: float) -> None:
        """Bounded also if nobody's is full: then all begin anew."""
        kept = {caller: full_at for caller, full_at in self._full_at.items() if full_at > now}
        self._full_at = kept if len(kept) < _MOST_CALLERS // 2 else {}


class Rates:
    """The rates of one process. Lives in the event loop."""

    def __init__(self, settings: Settings, refusals: Refusals) -> None:
        self._of_keys = Buckets(
            per_second=settings.key_requests_per_second, burst=settings.key_requests_burst
        )
        self._of_strangers = Buckets(
            per_second=settings.wrong_keys_per_second, burst=settings.wrong_keys_burst
        )
        self._refusals = refusals

    def count_request(self, digest: bytes, scope: Scope) -> None:
        """One request of a valid key. Raises TooManyRequests."""
        requests = 1 if scope.get("method") == "GET" else 1 + _length(scope) // COUNTED_BYTES
        wait = self._of_keys.take(digest, requests, time.monotonic())
        if wait:
            self._refusals.count(Refused.RATE)
            raise TooManyRequests(
                "This key sends more requests than it may.",
                wait_seconds=wait,
                policy=f'"key";{self._of_keys.policy}',
            )

    def count_stranger(self, scope: Scope) -> None:
        """One request without a key, or with one that has to be looked for. Raises TooManyRequests."""
        wait = self._of_strangers.take(_address_of(scope), 1, time.monotonic())
        if wait:
            self._refusals.count(Refused.WRONG_KEYS)
            raise TooManyRequests(
                "Too many requests without a valid key come from this address.",
                wait_seconds=wait,
                policy=f'"address";{self._of_strangers.policy}',
            )

    def was_no_stranger(self, scope: Scope) -> None:
        """The key that was looked for is valid."""
        self._of_strangers.give_back(_address_of(scope))


def _length(scope: Scope) -> int:
    """What there is to read; a body that says it is too large is refused unread."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return min(int(value), MAX_BODY_BYTES) if value.isdigit() else 0
        if name == b"transfer-encoding":
            return _UNSAID_LENGTH
    return 0


def _address_of(scope: Scope) -> str:
    """Of IPv6 the network: whoever has one address has all of it."""
    client = scope.get("client")
    host = client[0] if client else ""
    if ":" not in host:
        return host
    try:
        return str(ipaddress.IPv6Network((host.partition("%")[0], 64), strict=False))
    except ValueError:
        return host
