"""Watching is told by the stream of events, and looks again and again where there is none."""

from __future__ import annotations

import time
from contextlib import closing

from service.cli.news import News
from service.client import Client
from tests.unit.client.scripted import Answer, serving

GROUP = {"name": "g", "gpus": 1}


def test_what_happens_is_told_at_once_and_by_group(client: Client) -> None:
    one, other = client.submit(GROUP).id, client.submit(GROUP).id
    with closing(News(client.address, [one, other])) as news:
        begun: set[str] = set()
        while begun != {one, other}:
            begun |= set(news.wait([one, other]))
        while True:
            began_at = time.monotonic()
            news.wait([one, other])
            if time.monotonic() - began_at > 2.5:
                break  # both streams are open: nothing happens, and nobody asks
        client.hold(other)
        began_at = time.monotonic()
        assert set(news.wait([one, other])) == {other}
        assert time.monotonic() - began_at < 2.0
        client.cancel(one)
        assert set(news.wait([one, other])) == {one}
        client.cancel(other)


def test_without_a_stream_all_are_looked_at_soon() -> None:
    with (
        serving(Answer(429, b"{}", {"Retry-After": "1"})) as (server, client),
        closing(News(client.address, ["a", "b"])) as news,
    ):
        for _ in range(4):
            began_at = time.monotonic()
            assert set(news.wait(["a", "b"])) == {"a", "b"}
            assert 0.4 < time.monotonic() - began_at < 2.0
        # It is tried again meanwhile, but not hastily.
        assert 2 <= len(server.asked) <= 8


def test_many_groups_are_not_followed_one_by_one(client: Client) -> None:
    ids = [f"group-{number}" for number in range(100)]
    with closing(News(client.address, ids)) as news:
        assert set(news.wait(ids)) == set(ids)
