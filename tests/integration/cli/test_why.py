"""What `muster why` says to people of groups on a cluster that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from service.client import Client
from service.inventory.client import make_client
from service.settings import Settings
from tests.integration.api.cluster import Cluster
from tests.integration.cli.conftest import Muster
from tests.integration.cli.terminal import at_terminal, lines_of


@pytest.fixture
def cluster(database_url: str, redis_url: str, engine: Engine, tmp_path: Path) -> Iterator[Cluster]:
    """One node with four GPUs. A start that is refused is not tried again."""
    settings = Settings(database_url=database_url, redis_url=redis_url, data=tmp_path, max_dispatches=1)
    with closing(make_client(redis_url)) as redis, closing(Cluster(settings, engine, redis)) as cluster:
        yield cluster


def test_a_group_below_its_size_is_told_what_keeps_it_from_growing(
    server: str, client: Client, cluster: Cluster
) -> None:
    role = {"name": "w", "count": 8, "min_count": 2, "requests": {"gpus": 1}, "command": ["x"]}
    elastic = {"resize": "while_running", "resumes_from_checkpoint": True}
    client.submit({"name": "e", "roles": [role], "elastic": elastic, "allow_infeasible": True})
    whole = client.submit({"name": "whole", "command": ["x"]})
    cluster.settle()
    lines = lines_of(at_terminal(server, "why", "e", columns=120))
    title = next(number for number, line in enumerate(lines) if "WHY IT DOES NOT GROW" in line)
    assert "InsufficientGpus" in lines[title + 1]
    assert not any(line.startswith(("position", "likely start")) for line in lines)
    assert "WHY" not in at_terminal(server, "why", whole.id)


def test_a_group_whose_start_was_refused_is_told_why_it_ended(
    server: str, client: Client, cluster: Cluster, muster: Muster
) -> None:
    refused = client.submit({"name": "refused", "command": ["x"]})
    cluster.machines.behave("refused", refuses=True, message="no such image")
    cluster.settle()
    assert client.get(refused.id).status == "Failed"
    lines = lines_of(at_terminal(server, "why", "refused", columns=120))
    title = next(number for number, line in enumerate(lines) if "WHY IT ENDED" in line)
    assert "DispatchRefused" in lines[title + 1]
    assert "no such image" in lines[title + 1]
    assert not any(line.startswith(("position", "likely start")) for line in lines)
    [fields] = muster("why", "refused").rows
    assert fields[0] == "DispatchRefused"
    assert fields[-1].endswith(": no such image")


def test_instants_in_reasons_are_those_of_a_clock(server: str, client: Client, muster: Muster) -> None:
    client.submit({"name": "later", "command": ["x"], "not_before": "2040-03-04T12:00:00Z"})
    [line] = [
        line
        for line in lines_of(at_terminal(server, "why", "later", columns=120, TZ="UTC"))
        if "BackingOff" in line
    ]
    assert line.endswith("to start before 2040-03-04 12:00")
    [fields] = [row for row in muster("why", "later").rows if row[0] == "BackingOff"]
    assert fields[-1].endswith("2040-03-04T12:00:00+00:00")
