"""Requests: repeated where that harms nobody, and errors as exceptions."""

from __future__ import annotations

import json
import socket
import time

import msgspec
import pytest

from service.client import ApiError, Client, Unintelligible, Unreachable, Unsendable
from service.client.address import Address
from service.client.groups import GroupBrief
from tests.unit.client.scripted import Answer, serving

QUEUE = json.dumps(
    {
        "name": "q",
        "tenant": None,
        "cohort": None,
        "weight": 1.0,
        "order": "strict",
        "order_by": "age",
        "stop": "none",
        "nominal_quota": None,
        "borrowing_limit": {},
        "lending_limit": {},
        "limit": {},
        "user_limit": {},
        "group_limit": {},
        "flavors": None,
        "pools": None,
        "filling": "pack",
        "preempt_within": "never",
        "reclaim": "never",
        "min_runtime": "0s",
        "evictions_per_day": None,
        "highest_priority": {},
        "default_time_limit": None,
        "max_time_limit": None,
        "used": {},
        "borrowed": {},
        "demanded": {},
        "waiting": 0,
        "share": 0.0,
        "rank": 1,
        "created_at": "2026-03-04T12:00:00Z",
        "deleting_at": None,
    }
).encode()
QUEUES = b'{"queues": [' + QUEUE + b"]}"


def problem(status: int, **fields: object) -> Answer:
    body = {"type": "about:blank", "title": "No", "status": status, **fields}
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/problem+json"})


def test_the_key_is_sent_and_a_typed_answer_comes_back() -> None:
    with serving(Answer(body=QUEUES)) as (server, client):
        queues = client.queues.list()
    assert queues[0].name == "q"
    assert queues[0].created_at.tzinfo is not None
    assert server.asked[0].headers["Authorization"] == "Bearer the-key"


def test_a_field_of_a_newer_server_is_no_trouble() -> None:
    with serving(Answer(body=QUEUES.replace(b'"name"', b'"colour": "red", "name"'))) as (_, client):
        assert client.queues.list()[0].name == "q"


@pytest.mark.parametrize("first", [Answer(cuts=True), Answer(503), Answer(502), Answer(429)])
def test_what_may_be_repeated_is(first: Answer) -> None:
    with serving(first, Answer(body=QUEUES)) as (server, client):
        client.queues.list()
    assert len(server.asked) == 2


def test_a_server_that_says_how_long_to_wait_is_believed_within_bounds() -> None:
    with serving(Answer(503, headers={"Retry-After": "1"}), Answer(body=QUEUES)) as (_, client):
        begin = time.monotonic()
        client.queues.list()
    assert time.monotonic() - begin >= 1.0


def test_what_was_too_much_is_repeated_whatever_it_is() -> None:
    refused = Answer(429, headers={"Retry-After": "0"})
    with serving(refused, refused, refused, refused, Answer(201, QUEUE)) as (server, client):
        assert client.queues.create("q", {}).name == "q"
    assert len(server.asked) == 5


def test_patience_with_a_server_that_refuses_ends() -> None:
    refused = Answer(429, b'{"detail": "More than it may."}', {"Retry-After": "0"})
    with (
        serving(refused) as (server, client),
        pytest.raises(ApiError, match="More than it may") as caught,
    ):
        client.queues.create("q", {})
    assert caught.value.status == 429
    assert len(server.asked) == 6


def test_repeating_ends_with_the_error() -> None:
    with (
        serving(problem(503, detail="Redis does not answer.")) as (server, client),
        pytest.raises(ApiError, match="Redis does not answer") as caught,
    ):
        client.queues.list()
    assert caught.value.status == 503
    assert len(server.asked) == 3


@pytest.mark.parametrize("first", [Answer(cuts=True), Answer(503)])
def test_making_a_queue_is_not_repeated(first: Answer) -> None:
    with serving(first, Answer(201, QUEUE)) as (server, client), pytest.raises((ApiError, Unreachable)):
        client.queues.create("q", {})
    assert len(server.asked) == 1


def test_a_deletion_whose_answer_was_lost_is_done() -> None:
    gone = problem(404, detail="There is no such queue.")
    with serving(Answer(body=QUEUE), Answer(cuts=True), gone) as (server, client):
        assert client.queues.delete("q").name == "q"
    assert [asked.method for asked in server.asked] == ["GET", "DELETE", "DELETE"]
    with serving(gone) as (_, client), pytest.raises(ApiError):
        client.queues.delete("q")
    with serving(Answer(body=QUEUE), problem(409)) as (_, client), pytest.raises(ApiError) as caught:
        client.queues.delete("q")
    assert caught.value.status == 409


def test_a_submit_is_repeated_with_the_same_key() -> None:
    with serving(Answer(cuts=True), problem(422, detail="no")) as (server, client), pytest.raises(ApiError):
        client.submit({"name": "a"})
    keys = [asked.headers["Idempotency-Key"] for asked in server.asked]
    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_two_submits_have_different_keys_unless_one_is_given() -> None:
    with serving(problem(422, detail="no")) as (server, client):
        for key in (None, None, "mine"):
            with pytest.raises(ApiError):
                client.submit({"name": "a"}, key=key)
    keys = [asked.headers["Idempotency-Key"] for asked in server.asked]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


def test_a_problem_becomes_an_error_with_its_fields() -> None:
    errors = [{"field": "roles[0].count", "message": "Must be at least 1."}]
    with (
        serving(problem(422, detail="The group breaks a rule.", errors=errors)) as (_, client),
        pytest.raises(ApiError) as caught,
    ):
        client.submit({})
    error = caught.value
    assert (error.status, error.title, error.detail) == (422, "No", "The group breaks a rule.")
    assert [(wrong.field, wrong.message) for wrong in error.errors] == [
        ("roles[0].count", "Must be at least 1.")
    ]


def test_an_error_that_is_no_problem_has_its_status_at_least() -> None:
    with (
        serving(Answer(404, b"<html>nothing here")) as (_, client),
        pytest.raises(ApiError, match="Not Found"),
    ):
        client.get("x")


@pytest.mark.parametrize("body", [b"hello", b"[]", b'{"queues": 1}', b"\xff"])
def test_who_speaks_something_else_is_told_apart(body: bytes) -> None:
    with serving(Answer(body=body)) as (_, client), pytest.raises(Unintelligible):
        client.queues.list()


def test_nobody_there_is_said_with_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with Client(Address(url)) as client, pytest.raises(Unreachable) as caught:
        client.ready()
    assert url in str(caught.value)


def test_no_name_is_no_part_of_a_path() -> None:
    with (
        serving(Answer(body=QUEUE)) as (server, client),
        pytest.raises(Unsendable, match="must not be empty"),
    ):
        client.queues.get("")
    assert server.asked == []


@pytest.mark.parametrize("name", ["a/b", "..", "a?b", "a#b", "ä b", "%2e"])
def test_a_name_is_one_part_of_the_path(name: str) -> None:
    with serving(Answer(body=QUEUE)) as (server, client):
        client.queues.get(name)
    path = server.asked[0].path
    assert path.startswith("/v1/queues/")
    assert path.count("/") == 3
    assert not set("?# ") & set(path)


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with serving(Answer(body=QUEUES)) as (_, client):
        assert client.queues.list()


def test_pages_are_asked_for_as_they_are_wanted() -> None:
    brief: dict[str, object] = {field.name: None for field in msgspec.structs.fields(GroupBrief)}
    brief |= {"queue": "q", "is_waiting": True, "wanted_members": 1, "wanted_gpus": 1}
    pages = [
        Answer(body=json.dumps({"groups": [brief, brief], "cursor": cursor}).encode())
        for cursor in ("c1", None)
    ]
    with serving(*pages) as (server, client):
        groups = client.list_groups(
            queue="q", statuses=["Pending", "Running"], labels={"a": "b"}, is_waiting=True
        )
        next(groups)
        assert len(server.asked) == 1
        assert len(list(groups)) == 3
    assert "status=Pending&status=Running" in server.asked[0].path
    assert "label=a%3Db" in server.asked[0].path
    assert "waiting=true" in server.asked[0].path
    assert "cursor" not in server.asked[0].path
    assert "cursor=c1" in server.asked[1].path


STREAM = (
    b': hello\n\nid: 7\nevent: Submitted\ndata: {"id": 7, "at": "2026-03-04T12:00:00Z", "kind": "Submitted",'
    b' "actor": "u", "member": null, "node": null, "attempt": 1, "generation": null, "cause": null,'
    b' "data": null}\n\n'
)


def test_a_stream_of_events_ends_when_the_server_says_so() -> None:
    with serving(Answer(body=STREAM + b"event: end\ndata: {}\n\n")) as (server, client):
        events = list(client.events("g").follow(after=5))
    assert [event.id for event in events] == [7]
    assert server.asked[0].headers["Last-Event-ID"] == "5"


def test_a_stream_that_breaks_off_is_an_error() -> None:
    with serving(Answer(body=STREAM)) as (_, client):
        events = client.events("g").follow()
        assert next(events).id == 7
        with pytest.raises(Unreachable):
            next(events)


def test_a_log_is_read_to_its_end_in_parts() -> None:
    parts = [
        Answer(body=b"abc", headers={"Muster-Log-Next-Offset": "3", "Muster-Log-Size": "5"}),
        Answer(body=b"de", headers={"Muster-Log-Next-Offset": "5", "Muster-Log-Size": "5"}),
    ]
    with serving(*parts) as (server, client):
        assert b"".join(client.members("g").logs(0)) == b"abcde"
    assert "offset=3" in server.asked[1].path


@pytest.mark.parametrize("amount", [float("inf"), float("nan"), 1 << 70])
def test_a_limit_that_would_become_none_is_not_sent(amount: float) -> None:
    with (
        serving(Answer(body=QUEUE)) as (server, client),
        pytest.raises(Unsendable, match=r"^limit\.cpus: is "),
    ):
        client.queues.update("q", {"limit": {"cpus": amount}})
    assert server.asked == []


@pytest.mark.parametrize(("name", "said"), [(None, "null"), (True, "true"), (1.10, "1.1")])
def test_a_name_that_would_become_another_is_not_sent(name: object, said: str) -> None:
    with (
        serving(Answer(body=QUEUE)) as (server, client),
        pytest.raises(Unsendable, match=rf"^limit: has the name {said}, which is no text"),
    ):
        client.queues.update("q", {"limit": {name: 1}})
    assert server.asked == []


def test_what_json_has_no_form_for_is_not_sent() -> None:
    with serving(Answer(body=QUEUE)) as (server, client), pytest.raises(Unsendable):
        client.submit({"name": object()})
    assert server.asked == []


def test_what_is_no_text_is_refused_before_it_is_sent() -> None:
    """Bytes of a command line that are no UTF-8 come as halves of characters."""
    with serving(Answer(body=QUEUES)) as (server, client):
        with pytest.raises(Unsendable, match="name"):
            list(client.list_groups(name="\udcff"))
        with pytest.raises(Unsendable, match="half a character"):
            client.queues.get("\udcff")
    assert server.asked == []
