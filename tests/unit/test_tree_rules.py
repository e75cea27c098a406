"""Rules of queues and cohorts: what is accepted keeps to every one of them, whatever the tree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.domain.queue import QueuePolicy, Quota
from service.domain.tree import CohortSettings, Named, QueueSettings, Tree
from service.domain.tree_rules import MOST_LEVELS, broken_tree_rules

_NAMES = ("a", "b", "c", "d")
_amounts = st.dictionaries(st.sampled_from(["mx", "cpus", "memory"]), st.integers(0, 3), max_size=2)
_limits = st.none() | st.integers(1, 3)


def cohorts(name: str) -> st.SearchStrategy[CohortSettings]:
    parents = st.none() | st.sampled_from(_NAMES)
    none: st.SearchStrategy[dict[str, int]] = st.just({})
    bounds = none | _amounts
    quotas = st.builds(Quota, nominal=_amounts, borrowing=bounds, lending=bounds)
    return st.builds(CohortSettings, name=st.just(name), parent=parents, quota=quotas)


def queues(name: str) -> st.SearchStrategy[QueueSettings]:
    none: st.SearchStrategy[dict[str, int]] = st.just({})
    quotas = st.builds(
        Quota,
        nominal=st.none() | _amounts,
        limit=st.none() | _amounts,
        borrowing=none | _amounts,
        lending=none | _amounts,
    )
    policies = st.builds(QueuePolicy, default_time_limit_seconds=_limits, max_time_limit_seconds=_limits)
    cohort = st.none() | st.sampled_from(_NAMES)
    return st.builds(QueueSettings, name=st.just(name), cohort=cohort, quota=quotas, policy=policies)


trees = st.builds(
    lambda found, queue: Tree(cohorts={each.name: each for each in found}, queues={"q": queue}),
    st.lists(st.sampled_from(_NAMES), unique=True).flatmap(lambda names: st.tuples(*map(cohorts, names))),
    queues("q"),
)


def is_sound(tree: Tree) -> bool:
    return all(is_sound_cohort(each, tree) for each in tree.cohorts.values()) and all(
        is_sound_queue(each, tree) for each in tree.queues.values()
    )


def is_sound_cohort(cohort: CohortSettings, tree: Tree) -> bool:
    """Its way up ends at a root, and limits have somebody to hold them against."""
    above: str | None = cohort.name
    for _ in range(len(tree.cohorts)):
        found = None if above is None else tree.cohorts.get(above)
        above = above if found is None else found.parent
    has_limits = bool(cohort.quota.borrowing or cohort.quota.lending)
    return above is None and not (has_limits and cohort.parent is None)


def is_sound_queue(queue: QueueSettings, tree: Tree) -> bool:
    quota, policy = queue.quota, queue.policy
    nominal = quota.nominal or {}
    if queue.cohort is None and (quota.borrowing or quota.lending):
        return False
    if queue.cohort is not None and (queue.cohort not in tree.cohorts or quota.nominal is None):
        return False
    longest = policy.max_time_limit_seconds
    return (
        all(amount <= (quota.limit or {}).get(resource, amount) for resource, amount in nominal.items())
        and all(amount <= nominal.get(resource, 0) for resource, amount in quota.lending.items())
        and (longest is None or (policy.default_time_limit_seconds or 0) <= longest)
    )


@given(trees)
def test_a_tree_is_refused_if_and_only_if_it_breaks_a_rule(tree: Tree) -> None:
    broken = broken_tree_rules(tree)
    assert (broken == ()) == is_sound(tree), broken
    for what, error in broken:
        assert what.kind in ("cohort", "queue")
        assert error.field
        assert error.message


def test_each_cohort_on_a_circle_is_named_and_the_way_round() -> None:
    parents = {"a": "b", "b": "c", "c": "a", "d": "a", "e": "e"}
    found = {name: CohortSettings(name=name, parent=parent) for name, parent in parents.items()}
    broken = dict(broken_tree_rules(Tree(cohorts=found)))
    assert {what.name for what in broken} == {"a", "b", "c", "e"}
    assert "a -> b -> c -> a" in broken[Named("cohort", "a")].message


def test_a_tree_that_is_too_deep_is_refused_and_whoever_is_too_deep_is_named() -> None:
    deep = {f"c{n}": CohortSettings(name=f"c{n}", parent=f"c{n - 1}" if n else None) for n in range(1_500)}
    broken = broken_tree_rules(Tree(cohorts=deep))
    assert [what.name for what, _ in broken] == [f"c{n}" for n in range(MOST_LEVELS, 1_500)]
    assert {error.field for _, error in broken} == {"parent"}


def test_a_time_limit_of_nothing_is_refused() -> None:
    policy = QueuePolicy(default_time_limit_seconds=0, max_time_limit_seconds=0)
    broken = broken_tree_rules(Tree(queues={"q": QueueSettings(name="q", policy=policy)}))
    assert {error.field for _, error in broken} == {"default_time_limit", "max_time_limit"}


def test_amounts_are_told_in_their_units() -> None:
    quota = Quota(nominal={"cpus": 1500, "memory": 2048}, limit={"cpus": 1000, "memory": 1024})
    broken = broken_tree_rules(Tree(queues={"q": QueueSettings(name="q", quota=quota)}))
    told = {error.field: error.message for _, error in broken}
    assert told["nominal_quota.cpus"] == "1.5 is above the limit of 1."
    assert told["limit.memory_gib"] == "1 is below the nominal quota of 2."
