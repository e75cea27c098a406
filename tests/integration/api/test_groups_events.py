"""Events as pages and streams, members and logs as parts and streams."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from redis import Redis
from sqlalchemy import Engine, text

from service.api.app import create_app
from service.domain.unit import unit_id
from service.operations.member_logs import log_path
from service.settings import Settings
from tests.integration.api.cluster import Cluster
from workers.launchers.base import MemberKey


@pytest.fixture
def served(settings: Settings, engine: Engine, redis: Redis) -> Iterator[httpx.Client]:
    """The API on a real server, since streams need one; at most three streams at once."""
    bound = Settings(
        database_url=settings.database_url,
        redis_url=settings.redis_url,
        data=settings.data,
        api_key=settings.api_key,
        max_streams=3,
    )
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(bound, engine=engine, redis=redis),
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
    )
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    with httpx.Client(
        base_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
        headers={"Authorization": f"Bearer {settings.api_key}"},
        timeout=20,
    ) as client:
        yield client
    server.should_exit = True
    thread.join()
    listener.close()


def _submit(client: httpx.Client, **fields: Any) -> str:
    answer = client.post("/v1/groups", json={"name": "g", "gpus": 1, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and data of each server-sent event."""
    kind = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            kind = value
        elif field == "data":
            yield kind, json.loads(value)


STREAM = {"Accept": "text/event-stream"}


def test_events_come_in_pages(served: httpx.Client, cluster: Cluster) -> None:
    group_id = _submit(served)
    cluster.settle()
    events: list[dict[str, Any]] = []
    cursor: str | None = "0"
    while cursor is not None:
        page = served.get(f"/v1/groups/{group_id}/events", params={"limit": 2, "cursor": cursor}).json()
        events += page["events"]
        cursor = page["cursor"]
    assert [event["kind"] for event in events] == ["Submitted", "Admitted", "Starting", "Running"]
    assert [event["id"] for event in events] == sorted({event["id"] for event in events})
    assert (events[0]["actor"], events[0]["member"]) == ("admin", None)
    assert served.get(f"/v1/groups/{group_id}/events", params={"cursor": "x"}).status_code == 422


def test_a_stream_tells_what_happens_and_ends_with_the_group(served: httpx.Client, cluster: Cluster) -> None:
    group_id = _submit(served)
    with served.stream("GET", f"/v1/groups/{group_id}/events", headers=STREAM) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = _events(answer.iter_lines())
        assert next(events)[0] == "Submitted"
        cluster.settle()
        assert [next(events)[0] for _ in range(3)] == ["Admitted", "Starting", "Running"]
        cluster.machines.end("g")
        cluster.settle()
        rest = list(events)
    assert rest[-2][0] == "Succeeded"
    assert rest[-1] == ("end", {})
    last_but_one = rest[-2][1]["id"] - 1
    headers = STREAM | {"Last-Event-ID": str(last_but_one)}
    again = served.get(f"/v1/groups/{group_id}/events", headers=headers)
    assert [kind for kind, _ in _events(iter(again.text.splitlines()))] == ["Succeeded", "end"]


def test_an_event_that_began_early_and_committed_late_is_not_missed(
    served: httpx.Client, engine: Engine
) -> None:
    """W1: its id is lower than one that the stream has told already."""
    group_id = _submit(served)
    add = text("INSERT INTO events (is_feed, at, kind, group_id) VALUES (false, now(), :kind, :group)")
    with (
        engine.connect() as late,
        served.stream("GET", f"/v1/groups/{group_id}/events", headers=STREAM) as answer,
    ):
        events = _events(answer.iter_lines())
        assert next(events)[0] == "Submitted"
        internal = late.execute(text("SELECT id FROM groups")).scalar_one()
        late.execute(add, {"kind": "Late", "group": internal})
        with engine.begin() as early:
            early.execute(add, {"kind": "Early", "group": internal})
        first = next(events)
        late.commit()
        second = next(events)
    assert (first[0], second[0]) == ("Early", "Late")
    assert first[1]["id"] > second[1]["id"]


def test_a_stream_outlives_a_lost_connection(served: httpx.Client, engine: Engine) -> None:
    group_id = _submit(served)
    with served.stream("GET", f"/v1/groups/{group_id}/events", headers=STREAM) as answer:
        events = _events(answer.iter_lines())
        assert next(events)[0] == "Submitted"
        with engine.connect() as conn:
            conn.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        for _ in range(20):
            if served.post(f"/v1/groups/{group_id}/hold").status_code == 200:
                break
        served.delete(f"/v1/groups/{group_id}").raise_for_status()
        assert [kind for kind, _ in events] == ["Held", "Cancelled", "end"]


def test_too_many_streams_are_refused(served: httpx.Client) -> None:
    group_id = _submit(served)
    address = f"/v1/groups/{group_id}/events"
    with (
        served.stream("GET", address, headers=STREAM) as one,
        served.stream("GET", address, headers=STREAM) as two,
        served.stream("GET", f"/v1/groups/{group_id}/members/0/logs?follow=true") as three,
    ):
        streams = [_events(answer.iter_lines()) for answer in (one, two)]
        assert [next(events)[0] for events in streams] == ["Submitted", "Submitted"]
        assert three.status_code == 200
        refused = served.get(address, headers=STREAM)
        assert refused.status_code == 429
        assert refused.headers["retry-after"]
        assert served.get(address).status_code == 200
    served.delete(f"/v1/groups/{group_id}").raise_for_status()
    assert "Cancelled" in served.get(address, headers=STREAM).text


def test_members_of_a_gang_count_through_its_roles(served: httpx.Client, cluster: Cluster) -> None:
    roles = [
        {"name": "launcher", "requests": {"gpus": 0}},
        {"name": "worker", "count": 3, "requests": {"gpus": 1}},
    ]
    answer = served.post("/v1/groups", json={"name": "g", "roles": roles})
    group_id = answer.json()["id"]
    waiting = served.get(f"/v1/groups/{group_id}/members").json()["members"]
    assert [(each["role"], each["status"], each["node"]) for each in waiting] == [
        ("launcher", "Pending", None),
        *[("worker", "Pending", None)] * 3,
    ]
    cluster.settle()
    cluster.machines.end("g", member=1)
    cluster.settle()
    page = served.get(f"/v1/groups/{group_id}/members", params={"limit": 2}).json()
    assert (page["cursor"], [each["member"] for each in page["members"]]) == ("2", [0, 1])
    rest = served.get(f"/v1/groups/{group_id}/members", params={"cursor": "2"}).json()
    launcher, ended, *others = page["members"] + rest["members"]
    assert (launcher["status"], launcher["node"], launcher["devices"]) == ("Running", "n1", [])
    assert (ended["status"], ended["exit_code"], len(ended["devices"])) == ("Succeeded", 0, 1)
    assert [each["member"] for each in others] == [2, 3]
    assert served.get(f"/v1/groups/{group_id}").json()["succeeded_members"] == 1
    running = served.get(f"/v1/groups/{group_id}/members", params={"status": "Running"}).json()["members"]
    assert [each["member"] for each in running] == [0, 2, 3]
    assert served.get(f"/v1/groups/{group_id}/members/3").json() == others[1]
    for unknown in ("4", "-1", "9" * 30):
        assert served.get(f"/v1/groups/{group_id}/members/{unknown}").status_code == 404


def test_members_of_an_independent_group_have_their_own_attempts(
    served: httpx.Client, cluster: Cluster
) -> None:
    group_id = _submit(
        served, scheduling="independent", members=6, recovery={"max_restarts": 0, "backoff": 0}
    )
    cluster.settle()
    cluster.machines.end("g", member=1)
    cluster.machines.end("g", member=2, exit_code=3)
    cluster.settle()
    members = served.get(f"/v1/groups/{group_id}/members").json()["members"]
    assert [(each["member"], each["status"]) for each in members] == [
        (0, "Running"),
        (1, "Succeeded"),
        (2, "Failed"),
        (3, "Running"),
        (4, "Running"),
        (5, "Running"),
    ]
    assert (members[2]["exit_code"], members[2]["cause"], members[2]["node"]) == (3, "UserError", "n1")
    group = served.get(f"/v1/groups/{group_id}").json()
    assert (group["cause"], group["failed_member"], group["succeeded_members"]) == ("UserError", 2, 1)
    waiting = served.get(f"/v1/groups/{group_id}/members", params={"status": ["Failed", "Succeeded"]})
    assert [each["member"] for each in waiting.json()["members"]] == [1, 2]


def _write(settings: Settings, engine: Engine, content: bytes, *, generation: int = 1) -> Path:
    with engine.connect() as conn:
        internal = conn.execute(text("SELECT max(id) FROM groups")).scalar_one()
    path = log_path(settings.data, MemberKey(unit_id(internal, 0), 1, generation, 0))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(content)
    return path


def test_logs_are_read_in_parts(served: httpx.Client, settings: Settings, engine: Engine) -> None:
    group_id = _submit(served)
    address = f"/v1/groups/{group_id}/members/0/logs"
    empty = served.get(address)
    assert (empty.status_code, empty.text) == (200, "")
    _write(settings, engine, b"one\ntwo\nthree\n")
    whole = served.get(address)
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert (whole.text, whole.headers["muster-log-next-offset"]) == ("one\ntwo\nthree\n", "14")
    part = served.get(address, params={"offset": 4, "limit": 3})
    assert (part.text, part.headers["muster-log-next-offset"], part.headers["muster-log-size"]) == (
        "two",
        "7",
        "14",
    )
    assert served.get(address, params={"tail": 2}).text == "two\nthree\n"
    headers = served.get(address).headers
    assert (headers["Muster-Log-Attempt"], headers["Muster-Log-Generation"]) == ("1", "1")
    assert served.get(address, params={"attempt": 2}).headers["Muster-Log-Attempt"] == "2"
    assert served.get(address, params={"tail": 0}).text == ""
    assert served.get(address, params={"attempt": 2}).text == ""
    for bad in ({"offset": -1}, {"limit": 0}, {"tail": -1}, {"limit": 10**12}, {"attempt": 10**12}):
        assert served.get(address, params=bad).status_code == 422


def test_following_a_log_goes_on_through_a_restart_and_ends_with_the_group(
    served: httpx.Client, settings: Settings, engine: Engine, cluster: Cluster
) -> None:
    group_id = _submit(served)
    cluster.settle()
    _write(settings, engine, b"old\nfirst\n")
    with served.stream(
        "GET", f"/v1/groups/{group_id}/members/0/logs", params={"follow": True, "tail": 1}
    ) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "first"
        _write(settings, engine, b"second\n")
        assert next(lines) == "second"
        _write(settings, engine, b"last of generation 1\n")
        cluster.machines.end("g", exit_code=1)
        cluster.settle()
        assert next(lines) == "last of generation 1"
        _write(settings, engine, b"generation 2\n", generation=2)
        assert next(lines) == "generation 2"
        _write(settings, engine, b"bye\n", generation=2)
        cluster.machines.end("g")
        cluster.settle()
        assert list(lines) == ["bye"]
    assert served.get(f"/v1/groups/{group_id}").json()["status"] == "Succeeded"
