"""A log is followed over breaks of the connection: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from service.client import ApiError
from service.client.log_following import LogFollower
from service.client.transport import Transport
from tests.unit.client.scripted import Answer, ScriptedServer, serving


def part(content: bytes, *, behind: int, size: int, generation: int = 1) -> Answer:
    headers = {
        "Muster-Log-Attempt": "1",
        "Muster-Log-Generation": str(generation),
        "Muster-Log-Next-Offset": str(behind),
        "Muster-Log-Size": str(size),
    }
    return Answer(body=content, headers=headers)


def broken(content: bytes) -> Answer:
    """A stream that brings `content` and then breaks."""
    return Answer(body=content, headers={"Content-Length": "1000", "Connection": "close"})


def followed(
    *answers: Answer, tail: int | None = None, has_ended: Callable[[], bool] = lambda: True
) -> tuple[bytes, ScriptedServer]:
    with serving(*answers) as (server, client):
        transport = Transport(client.address)
        try:
            log = LogFollower(transport, "/log", asked={}, has_ended=has_ended)
            return b"".join(log.follow(tail=tail)), server
        finally:
            transport.close()


def test_a_stream_that_breaks_goes_on_where_it_was() -> None:
    content, server = followed(
        part(b"f", behind=1, size=3),
        broken(b"first "),
        Answer(503),
        part(b"f", behind=1, size=6),
        Answer(body=b"second"),
    )
    assert content == b"first second"
    assert "offset=6&follow=true" in server.asked[-1].path


def test_a_stream_that_the_server_closed_before_the_end_goes_on() -> None:
    ends = iter([False, True])
    content, _ = followed(
        part(b"a", behind=1, size=1),
        Answer(body=b"a"),
        part(b"a", behind=1, size=1),
        Answer(body=b"b"),
        has_ended=lambda: next(ends),
    )
    assert content == b"ab"


def test_a_tail_comes_once() -> None:
    content, server = followed(
        part(b"last\n", behind=900, size=900),
        broken(b"x"),
        part(b"f", behind=1, size=901),
        Answer(body=b"y"),
        tail=1,
    )
    assert content == b"last\nxy"
    assert "offset=901&follow=true" in server.asked[-1].path


def test_what_was_dropped_before_the_beginning_is_counted() -> None:
    content, server = followed(
        part(b"k", behind=501, size=600), broken(b"kept"), part(b"k", behind=501, size=600), Answer(body=b".")
    )
    assert content == b"kept."
    assert "offset=500&follow=true" in server.asked[1].path
    assert "offset=504&follow=true" in server.asked[-1].path


def test_the_rest_of_a_log_comes_before_the_next_generation() -> None:
    content, server = followed(
        part(b"o", behind=1, size=3),
        broken(b"old"),
        part(b"n", behind=1, size=3, generation=2),
        part(b" end ", behind=8, size=8),
        part(b"", behind=8, size=8),
        Answer(body=b"new"),
    )
    assert content == b"old end new"
    assert "generation=1&offset=3" in server.asked[3].path
    assert "offset=0&follow=true" in server.asked[-1].path


def test_a_stream_that_had_gone_on_to_the_next_generation_goes_on_there() -> None:
    content, server = followed(
        part(b"o", behind=1, size=3),
        broken(b"old new"),
        part(b"n", behind=1, size=6, generation=2),
        part(b"", behind=3, size=3),
        Answer(body=b"er"),
    )
    assert content == b"old newer"
    assert "offset=4&follow=true" in server.asked[-1].path


def test_an_answer_that_will_not_change_ends_it() -> None:
    with pytest.raises(ApiError, match="Not Found"):
        followed(part(b"a", behind=1, size=1), Answer(404, b"gone"))
