"""What queues and cohorts must keep to. Every broken rule is listed, each with the path of its field."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from service.domain.errors import FieldError, InvalidRequest
from service.domain.queue import Quota
from service.domain.resources import shown_amount, wire_name
from service.domain.scheduling import SchedulingSettings
from service.domain.tree import SCHEDULING, CohortSettings, Named, QueueSettings, Tree, Wanted

#: Every look at a queue's quota goes up the whole tree.
MOST_LEVELS = 32


def broken_queue_rules(queue: QueueSettings, *, cohorts: Collection[str]) -> tuple[FieldError, ...]:
    """`cohorts`: the names of those that there are."""
    return (
        *_missing_cohort("cohort", queue.cohort, cohorts=cohorts),
        *_quota_rules(queue),
        *_lone_limits(queue.quota, is_alone=queue.cohort is None, missing="a cohort"),
        *_time_limit_rules(queue),
    )


def broken_cohort_rules(
    cohort: CohortSettings, *, parents: Mapping[str, str | None]
) -> tuple[FieldError, ...]:
    """`parents`: of every cohort that there is, this one included, the parent."""
    return (
        *_missing_cohort("parent", cohort.parent, cohorts=parents),
        *_cycle_rules(cohort.name, parents),
        *_lone_limits(cohort.quota, is_alone=cohort.parent is None, missing="a parent"),
    )


def broken_depth_rules(parents: Mapping[str, str | None]) -> tuple[FieldError, ...]:
    """When one cohort moves, those below it go with it: the first that would be too deep."""
    deep = (_too_deep(name) for name in parents if len(_way_up(name, parents)[0]) > MOST_LEVELS)
    return (*islice(deep, 1),)


def _missing_cohort(field: str, name: str | None, *, cohorts: Collection[str]) -> Iterator[FieldError]:
    if name is not None and name not in cohorts:
        yield FieldError(field, f"There is no cohort {name}.")


def _cycle_rules(name: str, parents: Mapping[str, str | None]) -> Iterator[FieldError]:
    """Each cohort on a circle, or too deep, has an error of its own."""
    way, above = _way_up(name, parents)
    if above == name:
        yield FieldError("parent", f"The cohorts would go round in a circle: {' -> '.join([*way, name])}.")
    elif len(way) > MOST_LEVELS:
        yield _too_deep(name)


def _way_up(name: str, parents: Mapping[str, str | None]) -> tuple[list[str], str | None]:
    """From a cohort to the top, and what is above that: something if it is a circle, or too deep."""
    way = [name]
    while (above := parents.get(way[-1])) is not None and above not in way and len(way) <= MOST_LEVELS:
        way.append(above)
    return way, above


def _too_deep(name: str) -> FieldError:
    return FieldError(
        "parent", f"Cohorts are nested {MOST_LEVELS} levels deep at most; {name} would be deeper."
    )


def _quota_rules(queue: QueueSettings) -> Iterator[FieldError]:
    quota = queue.quota
    if queue.cohort is not None and quota.nominal is None:
        yield FieldError(
            "nominal_quota",
            "A queue in a cohort needs a nominal quota; {} gives it nothing of its own.",
        )
    nominal, limit = quota.nominal or {}, quota.limit or {}
    for resource in sorted(nominal.keys() & limit.keys()):
        if nominal[resource] > limit[resource]:
            of = wire_name(resource)
            own, most = shown_amount(resource, nominal[resource]), shown_amount(resource, limit[resource])
            yield FieldError(f"nominal_quota.{of}", f"{own} is above the limit of {most}.")
            yield FieldError(f"limit.{of}", f"{most} is below the nominal quota of {own}.")
    for resource, amount in sorted(quota.lending.items()):
        if amount > (own_amount := nominal.get(resource, 0)):
            lent, own = shown_amount(resource, amount), shown_amount(resource, own_amount)
            yield FieldError(
                f"lending_limit.{wire_name(resource)}", f"{lent} is above the nominal quota of {own}."
            )


def _lone_limits(quota: Quota, *, is_alone: bool, missing: str) -> Iterator[FieldError]:
    if not is_alone:
        return
    for field, amounts in (("borrowing_limit", quota.borrowing), ("lending_limit", quota.lending)):
        if amounts:
            yield FieldError(field, f"Without {missing} there is nobody to borrow from or to lend to.")


def _time_limit_rules(queue: QueueSettings) -> Iterator[FieldError]:
    default, longest = queue.policy.default_time_limit_seconds, queue.policy.max_time_limit_seconds
    for field, seconds in (("default_time_limit", default), ("max_time_limit", longest)):
        if seconds == 0:
            yield FieldError(field, "Must be at least one second, or null for none.")
    if default is not None and longest is not None and default > longest:
        yield FieldError("default_time_limit", f"{default} s is above the max_time_limit of {longest} s.")


def _scheduling_rules(scheduling: SchedulingSettings | None) -> Iterator[FieldError]:
    if scheduling is None:
        return
    for field, seconds in (
        ("guard", scheduling.guard_seconds),
        ("resize_interval", scheduling.resize_interval_seconds),
    ):
        if seconds == 0:
            yield FieldError(field, "Must be at least one second.")


def broken_tree_rules(tree: Tree) -> tuple[tuple[Named, FieldError], ...]:
    """Of everything at once: each broken rule, with what breaks it."""
    parents = {cohort.name: cohort.parent for cohort in tree.cohorts.values()}
    return (
        *(
            (Named("cohort", cohort.name), error)
            for cohort in tree.cohorts.values()
            for error in broken_cohort_rules(cohort, parents=parents)
        ),
        *((SCHEDULING, error) for error in _scheduling_rules(tree.scheduling)),
        *(
            (Named("queue", queue.name), error)
            for queue in tree.queues.values()
            for error in broken_queue_rules(queue, cohorts=parents)
        ),
    )


def check_tree(tree: Tree, wanted: Wanted) -> None:
    """Raises InvalidRequest that names every broken rule of `tree`, by its place in what is wanted."""
    broken = broken_tree_rules(tree)
    if broken:
        raise InvalidRequest.of(
            [FieldError(f"{wanted.place(what)}.{each.field}", each.message) for what, each in broken]
        )
