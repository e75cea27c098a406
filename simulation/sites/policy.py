"""A policy file, as `muster apply` takes it: its queues and cohorts, as the planner knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from service.admission.policy import DEFAULT, Policy, policy_as_said
from service.admission.world import Cohort, Queue
from service.client.documents import read_text
from service.client.errors import FileWrong
from service.client.policy_file import PolicyFile
from service.domain.errors import InvalidRequest
from service.domain.scheduling import UNSAID
from service.domain.tree import Tree
from service.domain.tree_rules import check_tree
from service.wire.decoding import decode
from service.wire.policy import PolicyRequest, wanted_of
from simulation.sites.site import SiteWrong


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePolicy:
    """`tree`: as the file says it, in its order."""

    name: str
    tree: Tree
    policy: Policy
    queues: Mapping[int, Queue]
    cohorts: Mapping[int, Cohort]


def read_policy(path: Path) -> SitePolicy:
    """Raises SiteWrong that says of each place in the file what `muster apply` would say."""
    try:
        file = PolicyFile(*read_text(str(path)))
    except FileWrong as error:
        raise SiteWrong(str(error)) from None
    try:
        return policy_of(file.body, name=path.name.removesuffix(".yaml").removesuffix(".yml"))
    except InvalidRequest as error:
        raise SiteWrong("\n".join(file.told(each.field, each.message) for each in error.errors)) from None


def policy_of(body: Mapping[str, Any], *, name: str) -> SitePolicy:
    """Queues and cohorts have ids from 1 on, in the order of the file. Raises InvalidRequest."""
    wanted = wanted_of(decode(msgspec.json.encode(body), PolicyRequest), is_all=True)
    check_tree(wanted.tree, wanted)
    ids = {cohort: number for number, cohort in enumerate(wanted.tree.cohorts, start=1)}
    return SitePolicy(
        name=name,
        tree=wanted.tree,
        policy=policy_as_said(DEFAULT, wanted.tree.scheduling or UNSAID),
        queues=_queues(wanted.tree, ids),
        cohorts=_cohorts(wanted.tree, ids),
    )


def _queues(tree: Tree, cohort_ids: Mapping[str, int]) -> dict[int, Queue]:
    return {
        number: Queue(
            id=number,
            name=said.name,
            cohort_id=None if said.cohort is None else cohort_ids[said.cohort],
            order=said.order,
            stop=said.stop,
            quota=said.quota,
            policy=said.policy,
        )
        for number, said in enumerate(tree.queues.values(), start=1)
    }


def _cohorts(tree: Tree, ids: Mapping[str, int]) -> dict[int, Cohort]:
    return {
        ids[said.name]: Cohort(
            id=ids[said.name],
            name=said.name,
            parent_id=None if said.parent is None else ids[said.parent],
            weight=said.weight,
            quota=said.quota,
        )
        for said in tree.cohorts.values()
    }
