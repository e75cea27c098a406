"""A member's log as it grows, also over a restart of the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from service.client.errors import ApiError, Unreachable
from service.client.transport import NOT_NOW, Transport

#: A server that is started anew is waited for.
PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader is: behind the first `offset` bytes of one attempt's and generation's log."""

    attempt: str
    generation: str
    offset: int

    def is_same_log(self, other: Place) -> bool:
        return (self.attempt, self.generation) == (other.attempt, other.generation)


class LogFollower:
    """Follows the log at `path`. `asked` may name an attempt and a generation; `has_ended` says whether
    anything can still come when the server has closed a stream."""

    def __init__(
        self, transport: Transport, path: str, *, asked: dict[str, Any], has_ended: Callable[[], bool]
    ) -> None:
        self._transport = transport
        self._path = path
        self._asked = asked
        self._has_ended = has_ended

    def follow(self, *, tail: int | None) -> Iterator[bytes]:
        """From the last `tail` lines, or all that is kept, to the end. Raises Unreachable or ApiError if
        the server does not come back in time."""
        # 1. Where it begins. Without a tail the stream brings everything.
        place, content = self._look(self._asked | ({"limit": 1} if tail is None else {"tail": tail}))
        if tail is None:
            place = _moved(place, -len(content))
        else:
            yield content
        lost_at: float | None = None
        while True:
            try:
                # 2. Behind a break: what is left of a log that was followed by another meanwhile.
                if lost_at is not None:
                    place, content = self._catch_up(place)
                    yield content
                # 3. What comes.
                for content in self._stream(place):
                    place = _moved(place, len(content))
                    lost_at = None
                    yield content
                if self._has_ended():
                    return
            except (Unreachable, ApiError) as error:
                is_passing = isinstance(error, Unreachable) or error.status in NOT_NOW
                if not is_passing or _seconds_since(lost_at) > PATIENCE_SECONDS:
                    raise
            lost_at = lost_at if lost_at is not None else time.monotonic()
            time.sleep(_PAUSE_SECONDS)

    def _stream(self, place: Place) -> Iterator[bytes]:
        """Nothing, once it is open, and then what comes."""
        query = self._asked | {"offset": place.offset, "follow": "true"}
        with self._transport.stream(self._path, query=query) as answer:
            yield b""
            yield from answer.iter_bytes()

    def _catch_up(self, place: Place) -> tuple[Place, bytes]:
        """The place in the newest log, and what was not read of the one before."""
        newest, _ = self._look(self._asked | {"limit": 1})
        if newest.is_same_log(place):
            return place, b""
        content = b""
        of_old = {"attempt": place.attempt, "generation": place.generation}
        while True:
            old, more = self._look(of_old | {"offset": place.offset + len(content)})
            content += more
            if not more:
                break
        # The broken stream may have gone on to the newest: what it brought of that lies behind the old end.
        return Place(newest.attempt, newest.generation, max(place.offset - old.offset, 0)), content

    def _look(self, query: dict[str, Any]) -> tuple[Place, bytes]:
        answer = self._transport.fetch(self._path, query=query)
        return _place_behind(answer), answer.content


def _place_behind(answer: httpx2.Response) -> Place:
    return Place(
        answer.headers["Muster-Log-Attempt"],
        answer.headers["Muster-Log-Generation"],
        int(answer.headers["Muster-Log-Next-Offset"]),
    )


def _moved(place: Place, size: int) -> Place:
    return Place(place.attempt, place.generation, place.offset + size)


def _seconds_since(instant: float | None) -> float:
    return 0.0 if instant is None else time.monotonic() - instant
