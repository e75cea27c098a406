"""The peer's workloads come as its generator makes them."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from bench.suite.drive import MOST_IN_A_BATCH, batches_of
from bench.suite.site import declared_nodes
from bench.suite.workloads import BASELINE, LARGE_SCALE, TAS, WORKLOADS, Workload
from workers.launchers.local.nodes import parse_nodes


@pytest.mark.parametrize(
    ("workload", "groups", "queues"), [(BASELINE, 15_000, 30), (LARGE_SCALE, 50_000, 1000), (TAS, 15_000, 30)]
)
def test_every_group_is_sent_once(workload: Workload, groups: int, queues: int) -> None:
    batches = batches_of(workload)
    sent = [group for batch in batches for group in msgspec.json.decode(batch.body)["groups"]]
    assert workload.groups == len(sent) == len({group["name"] for group in sent}) == groups
    assert len({group["queue"] for group in sent}) == queues
    assert max(batch.groups for batch in batches) <= MOST_IN_A_BATCH


def test_a_stream_waits_before_each_of_its_groups() -> None:
    due: dict[str, list[int]] = {}
    for batch in batches_of(BASELINE):
        for group in msgspec.json.decode(batch.body)["groups"]:
            if group["queue"] == "cohort-2-queue-3":
                due.setdefault(group["labels"]["class"], []).append(batch.due_ms)
    assert {kind: (len(each), each[0], each[-1]) for kind, each in due.items()} == {
        "small": (350, 100, 35_000),
        "medium": (100, 500, 50_000),
        "large": (50, 1200, 60_000),
    }
    gaps = {kind: {b - a for a, b in itertools.pairwise(each)} for kind, each in due.items()}
    assert gaps == {"small": {100}, "medium": {500}, "large": {1200}}


@pytest.mark.parametrize("workload", [BASELINE, TAS])
def test_work_over_capacity_is_the_peers(workload: Workload) -> None:
    work = sum(stream.count * stream.runtime_ms * stream.whole_cpus / 1000 for stream in workload.streams)
    assert work / workload.quota_cpus == pytest.approx(66.0)


@pytest.mark.parametrize(
    ("name", "nodes", "cpus"), [("baseline", 10, 120), ("large-scale", 334, 120), ("tas", 640, 96)]
)
def test_nodes_are_the_peers(name: str, nodes: int, cpus: int) -> None:
    declared = parse_nodes(declared_nodes(WORKLOADS[name]))
    assert len(declared) == nodes
    assert {node.cpus_milli for node in declared} == {1000 * cpus}
    racks = {node.labels.get("rack") for node in declared}
    assert len(racks) == (10 if name == "tas" else 1)
