"""A change of queues alone lets nobody read nodes again; a change of nodes does (L2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Connection, Engine

from service.domain.tree import CohortSettings, QueueSettings
from service.operations import cohorts, nodes, priority_classes, queues
from service.operations.configuration import KnownConfiguration
from service.operations.delete_queue import delete_queue
from service.operations.load_world import load_changes, load_world
from service.store.world_rows import read_configuration
from tests.integration.leader.site import START, Site, gang

Change = Callable[[Engine], object]

OF_QUEUES: dict[str, Change] = {
    "a new cohort": lambda engine: cohorts.create_cohort(
        engine, CohortSettings(name="c"), actor="o", now=START
    ),
    "a new queue": lambda engine: queues.create_queue(engine, QueueSettings(name="q"), actor="o", now=START),
    "a changed queue": lambda engine: queues.change_queue(
        engine, "default", change=lambda queue: replace(queue, tenant="t"), actor="o", now=START
    ),
    "a class of priorities": lambda engine: priority_classes.put_priority_class(
        engine, "high", value=100, actor="o", now=START
    ),
    "no queue any more": lambda engine: delete_queue(engine, "q", has_drain=False, actor="o", now=START),
}
OF_NODES: dict[str, Change] = {
    "cordoned": lambda engine: nodes.cordon(engine, "n1", actor="o", now=START),
    "drained": lambda engine: nodes.drain(engine, "n2", deadline_seconds=5, actor="o", now=START),
    "free": lambda engine: nodes.uncordon(engine, "n1", actor="o", now=START),
}


def test_nodes_are_read_again_when_they_changed(site: Site, direct: Connection) -> None:
    before, position = load_world(direct)
    assert before.configuration is not None
    for change in OF_QUEUES.values():
        change(site.engine)
        changes, position = load_changes(direct, position)
        assert changes.configuration == load_world(direct)[0].configuration
        assert position.configuration.version > before.configuration.version
        assert position.configuration.nodes is before.configuration.nodes
    for change in OF_NODES.values():
        known = position.configuration.nodes
        change(site.engine)
        changes, position = load_changes(direct, position)
        assert changes.configuration == load_world(direct)[0].configuration
        assert position.configuration.nodes != known


def test_whoever_counts_nothing_is_believed_to_have_changed_nodes(site: Site, direct: Connection) -> None:
    _, position = load_world(direct)
    site.execute("UPDATE config SET version = version + 1")
    _, after = load_changes(direct, position)
    assert after.configuration.nodes is not position.configuration.nodes


@pytest.mark.parametrize("has_more", [False, True], ids=["same nodes", "one more"])
def test_submits_are_compared_with_the_nodes_that_there_are(
    site: Site, direct: Connection, has_more: bool
) -> None:
    known = KnownConfiguration()
    large = gang(1, 9).shape()
    assert known.at(read_configuration(direct).version, direct).shortfalls(large)
    OF_QUEUES["a new queue"](site.engine)
    if has_more:
        site.add_node("n3", gpus=16)
    direct.rollback()
    cluster = known.at(read_configuration(direct).version, direct)
    assert bool(cluster.shortfalls(large)) is not has_more
    assert set(cluster.configuration.queues) == set(read_configuration(direct).queues)
