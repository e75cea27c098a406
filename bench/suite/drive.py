"""The load: what is due at one instant is submitted as one batch, at most 1,000 groups in each, over a few
kept connections. All bodies are made before the clock starts, so that the generator costs little."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from bench.http_load import Target, post
from bench.suite.site import group_body
from bench.suite.workloads import Workload

MOST_IN_A_BATCH = 1000
CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """`due_ms` after the beginning."""

    due_ms: int
    groups: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Driven:
    """Seconds from when a batch was due until it was answered, one for each; and how many groups."""

    late_seconds: Sequence[float]
    groups: int


def batches_of(workload: Workload) -> list[Batch]:
    """In the order in which they are due; within an instant by stream, then by queue."""
    return list(_batches(workload))


def _batches(workload: Workload) -> Iterator[Batch]:
    queues = [queue for _, queue in workload.queue_names()]
    due: dict[int, list[bytes]] = {}
    for stream in workload.streams:
        for number in range(stream.count):
            bodies = [msgspec.json.encode(group_body(stream, queue, number)) for queue in queues]
            due.setdefault((number + 1) * stream.interval_ms, []).extend(bodies)
    for at_ms in sorted(due):
        bodies = due[at_ms]
        for start in range(0, len(bodies), MOST_IN_A_BATCH):
            part = bodies[start : start + MOST_IN_A_BATCH]
            yield Batch(at_ms, len(part), b'{"groups":[%s]}' % b",".join(part))


def submit_all(target: Target, batches: Sequence[Batch]) -> Driven:
    """In real time. A batch that no connection is free for waits its turn. Raises UnexpectedAnswer."""
    return asyncio.run(_submit_all(target, batches))


async def _submit_all(target: Target, batches: Sequence[Batch]) -> Driven:
    late: list[float] = []
    waiting, began_at = iter(batches), time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(_connection(target, waiting, began_at=began_at, late=late))
    return Driven(late, sum(batch.groups for batch in batches))


async def _connection(
    target: Target, waiting: Iterator[Batch], *, began_at: float, late: list[float]
) -> None:
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        for batch in waiting:
            due_at = began_at + batch.due_ms / 1000
            await asyncio.sleep(max(0.0, due_at - time.monotonic()))
            await post(reader, writer, target=target, body=batch.body)
            late.append(time.monotonic() - due_at)
    finally:
        writer.close()
