"""A tree of quotas that has followed changes of its configuration is the tree that would be made anew."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from service.admission.differences import node_changes
from service.admission.quota.tree import QuotaTree, Usage
from service.admission.quota.tree_changes import TreeChanges
from service.admission.world import Configuration
from tests.simulation.mixed import site
from tests.simulation.reconfigured import CHANGES


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_follows_its_configuration(seed: int) -> None:
    rng, config = random.Random(seed), site(seed).configuration
    used: Usage = {}
    tree = QuotaTree(config, used)
    seen: set[tuple[int, int]] = set()
    kept = 0
    for _ in range(300):
        _take_or_give(rng, tree, used, config)
        before, known, revisions = config, _told(tree), _revisions(tree)
        seen.update(revisions.items())
        config = CHANGES[rng.choice(list(CHANGES))](rng, config)
        changes = tree.follow(config, used, node_changes(before.nodes, config.nodes))
        assert _told(tree) == _told(QuotaTree(config, used))
        # Whoever is not named keeps its revision, and its answers with it; whoever is has one that is new.
        for queue_id, revision in _revisions(tree).items():
            if queue_id not in changes.queues:
                kept += 1
                assert revision == revisions[queue_id]
                assert known[0][queue_id] == _told(tree)[0][queue_id]
            else:
                assert (queue_id, revision) not in seen
        assert changes.queues >= before.queues.keys() ^ config.queues.keys()
    assert kept > 300


def test_what_a_weight_touches() -> None:
    """Its own queue, and no answer of others in its tree."""
    config = site(1).configuration
    tree = QuotaTree(config, {})
    queue = config.queues[1]
    policy = replace(queue.policy, weight=3.0)
    other = replace(config, queues={**config.queues, 1: replace(queue, policy=policy)})
    changes = tree.follow(other, {}, node_changes(config.nodes, config.nodes))
    assert changes == TreeChanges(queues=frozenset({1}), near=frozenset(config.queues))
    assert tree.follow(other, {}, node_changes(config.nodes, config.nodes)) == TreeChanges()


def _take_or_give(rng: random.Random, tree: QuotaTree, used: Usage, config: Configuration) -> None:
    for queue_id in config.queues:
        own = used.setdefault(queue_id, {})
        amount = rng.randint(-own.get("mx", 0), 4)
        own["mx"] = own.get("mx", 0) + amount
        tree.charge(queue_id, {"mx": amount})


def _revisions(tree: QuotaTree) -> dict[int, int]:
    return {queue_id: node.revision for queue_id, node in tree.queues.items()}


def _told(tree: QuotaTree) -> tuple[dict[int, object], ...]:
    """What bounds each queue whatever others hold; and all that it may take, and whose turn it is."""
    bounds: dict[int, object] = {
        queue_id: (
            tree.ceiling(queue_id, "mx"),
            tree.excess(queue_id, "mx"),
            tree.own_room(queue_id, "mx"),
            tree.held(queue_id, "mx"),
        )
        for queue_id in tree.queues
    }
    rest: dict[int, object] = {
        queue_id: (tree.room(queue_id, "mx"), tree.reach(queue_id, "mx"), tree.share(queue_id), rank)
        for queue_id, rank in tree.ranks().items()
    }
    return bounds, rest, {each: sorted(ids) for each, ids in tree.borrowers().items()}
