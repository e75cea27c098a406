"""Queues in answers: amounts by flavor in GPUs, `cpus` in CPUs, `memory_gib` in GiB."""

from __future__ import annotations

from datetime import datetime
from math import isinf
from typing import Literal

from service.domain.queue import Filling, Order, OrderBy, PreemptWithin, Reclaim, Stop
from service.operations.read_queues import QueueView
from service.wire.amounts import amounts_answer
from service.wire.queue import queue_fields
from service.wire.values import AnswerStruct


class QueueAnswer(AnswerStruct, frozen=True, kw_only=True):
    """A queue. `used`: what its groups hold; `borrowed`: what of it is above the nominal quota; `demanded`:
    what is used, and what its Pending groups ask for (`*`: GPUs for which a group names no model);
    `waiting`: how many groups have a waiting part. `share`: the largest, over its resources, of what it uses
    to what its cohort has (without a cohort: to its own quota, or the cluster), divided by its weight;
    `infinite` for weight 0. `rank`: 1 for the queue whose turn comes first by shares. Durations as text, such
    as `4h`. `deleting_at`: since when it takes no groups, because it is to go."""

    name: str
    tenant: str | None
    cohort: str | None
    weight: float
    order: Order
    order_by: OrderBy
    stop: Stop
    nominal_quota: dict[str, float] | None
    borrowing_limit: dict[str, float]
    lending_limit: dict[str, float]
    limit: dict[str, float]
    user_limit: dict[str, float]
    group_limit: dict[str, float]
    flavors: list[str] | None
    pools: list[str] | None
    filling: Filling
    preempt_within: PreemptWithin
    reclaim: Reclaim
    min_runtime: str
    evictions_per_day: int | None
    highest_priority: dict[str, int]
    default_time_limit: str | None
    max_time_limit: str | None
    used: dict[str, float]
    borrowed: dict[str, float]
    demanded: dict[str, float]
    waiting: int
    share: float | Literal["infinite"]
    rank: int
    created_at: datetime
    deleting_at: datetime | None


class QueueList(AnswerStruct, frozen=True, kw_only=True):
    queues: list[QueueAnswer]


def queue_answer(view: QueueView) -> QueueAnswer:
    return QueueAnswer(
        **queue_fields(view.queue.settings),
        used=amounts_answer(view.used),
        borrowed=amounts_answer(view.borrowed),
        demanded=amounts_answer(view.demanded),
        waiting=view.waiting_groups,
        share="infinite" if isinf(view.share) else view.share,
        rank=view.rank,
        created_at=view.queue.created_at,
        deleting_at=view.queue.deleting_at,
    )
