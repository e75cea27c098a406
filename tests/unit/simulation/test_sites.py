"""Cluster and policy files: what they say becomes a site, and what is wrong is named by line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service.domain.queue import Order
from simulation.sites.cluster import read_cluster
from simulation.sites.making import read_site
from simulation.sites.site import SiteWrong

EXAMPLES = Path(__file__).parents[3] / "examples" / "simulation"
QUEUES = """\
cohorts:
  - name: all
queues:
  - {name: a, tenant: red, cohort: all, nominal_quota: {V100-32GB: 300}, order: strict}
  - {name: b, tenant: blue, cohort: all, nominal_quota: {V100-32GB: 212}}
  - {name: rest}
"""


def _written(folder: Path, text: str) -> Path:
    path = folder / "said.yaml"
    path.write_text(text)
    return path


def test_a_cluster_file_becomes_nodes_in_its_order() -> None:
    cluster = read_cluster(EXAMPLES / "cluster.yaml")
    assert (len(cluster.nodes), cluster.gpus) == (64, 512)
    first, last = cluster.nodes[1], cluster.nodes[64]
    assert (first.name, last.name) == ("gpu-1", "gpu-64")
    assert (first.labels["rack"], last.labels["rack"]) == ("gpu-rack-1", "gpu-rack-4")
    assert (first.cpus_milli, first.devices[0].memory_mib) == (64_000, 32 * 1024)
    assert cluster.pools[1].levels == ("rack", "host")


def test_outages_count_from_the_first_submission(tmp_path: Path) -> None:
    site = read_site(EXAMPLES / "cluster.yaml", _written(tmp_path, QUEUES))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    events = [(each.at - start, each.node_id, each.is_up) for each in site.events(start)]
    assert events == [(timedelta(days=3), 64, False), (timedelta(days=5), 64, True)]


def test_tenants_submit_to_their_queue_and_others_to_the_open_one(tmp_path: Path) -> None:
    site = read_site(EXAMPLES / "cluster.yaml", _written(tmp_path, QUEUES))
    assert [site.queue_for(tenant) for tenant in ("red", "blue", "green")] == [1, 2, 3]
    assert site.shares == {"red": 300, "blue": 212}
    assert site.configuration.queues[1].order is Order.STRICT


def test_without_quotas_a_share_is_by_weight(tmp_path: Path) -> None:
    text = "queues: [{name: a, tenant: red, weight: 3}, {name: b, tenant: blue}]"
    site = read_site(EXAMPLES / "cluster.yaml", _written(tmp_path, text))
    assert site.shares == {"red": 384, "blue": 128}
    assert site.queue_for("green") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes:\n- name: a\n  gpus: -1\n", "line 3: nodes[0].gpus: Must be at least 0."),
        ("nodes:\n- name: a\n  speed: 1\n", "line 3: nodes[0].speed: There is no such field."),
        ("nodes: []\n", "line 1: nodes: Must not be empty."),
        ("nodes:\n- name: a\n- name: a\n", "line 3: nodes[1].name: There is a node a already."),
        ("pools: [{name: x}]\nnodes: [{name: a}]\n", "line 2: nodes[0].pool: There is no pool default."),
        ("nodes:\n- name: a\n- [\n", "said.yaml, line 4, column 1"),
        ("nodes:\n- name: a\n  name: b\n", "line 3, column 3: the key 'name' is there twice"),
        (
            "nodes: [{name: a}]\noutages: [{node: b, down: 1h}]",
            "line 2: outages[0].node: There is no node b.",
        ),
        (
            "nodes: [{name: a}]\noutages:\n- node: a\n  down: 2h\n  up: 1h\n",
            "line 5: outages[0].up: Must be after down.",
        ),
        (
            "nodes: [{name: a}]\noutages: [{node: a, down: 2026-01-01T00:00:00}]",
            "line 2: outages[0].down: An instant needs a zone",
        ),
    ],
)
def test_what_is_wrong_with_a_cluster_is_named_by_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SiteWrong) as caught:
        read_cluster(_written(tmp_path, text))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues:\n- name: a\n  cohort: b\n", "line 3: queues[0].cohort: There is no cohort b."),
        ("queues:\n- name: a\n  weight: x\n", "line 3: queues[0].weight: Must be a number, not text."),
        ("queue:\n- name: a\n", "line 1: queue: There is no such field."),
        ("queues: [{name: a, stop: hold}]", "has no queue that admits anybody"),
        ("", "has no queue that admits anybody"),
        ("queues: [{name: a, pools: [far]}]", "queue a of said: cluster has none of its pools (far)"),
    ],
)
def test_what_is_wrong_with_a_policy_is_named_as_an_apply_names_it(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(SiteWrong) as caught:
        read_site(EXAMPLES / "cluster.yaml", _written(tmp_path, text))
    assert said in str(caught.value)
