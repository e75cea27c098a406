"""Groups that follow each other on the same GPUs, through every process of the stack."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, create_engine, text

from bench.cpu import CpuMeter
from bench.profiling import WORK, Profile, profiled_stack
from bench.results import Figure, Result, milliseconds, quantile
from bench.servers import require_fsync, short_folder, whole_stack
from bench.waiting import wait_for
from service.client import Client
from workers.stack import Stack

_NODES, _GPUS = 25, 8
_CLUSTER = f"{_NODES}x{_GPUS}xH100-80GB"
_PER_SECOND = 200.0
_SECONDS = 60.0
#: Groups that wait from the start, so that no GPU ever waits for a group to be submitted.
_AHEAD = 400
_BATCH_SECONDS = 0.05
#: What happens while the cluster fills is no turnover.
_WARM_UP_SECONDS = 5.0
_PROFILED_SECONDS = 12.0

_LIMIT = (
    "What is left between two groups is a chain: a pass of the dispatcher records the end (one fsync), the"
    " worker rests at most 15 ms after a cycle that admitted nothing (J2), reads, decides, reserves and"
    " commits (another), and a pass claims (a third), launches and records. Both processes are Python on"
    " one thread, and so is all that they wait for; with two cores for them, PostgreSQL and the load, the"
    " worker's rest and the queue for a core are most of the time, and the statements are the smaller part."
)

#: One row for each member that has run: its devices, and the instants of its life.
_LIVES = """
SELECT closed.places, closed.admitted_at, closed.running_at, ends.ended_at,
  (SELECT min(at) FROM events WHERE events.group_id = closed.group_id AND kind = 'Succeeded') AS recorded_at
FROM closed_attempts AS closed
JOIN member_ends AS ends ON ends.unit_id = closed.unit_id AND ends.attempt = closed.attempt
WHERE closed.running_at IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class _Life:
    admitted_at: datetime
    running_at: datetime
    ended_at: datetime
    recorded_at: datetime


def run(scale: float) -> Result:
    """On stacks of their own: one is measured, another is looked at."""
    seconds = max(_WARM_UP_SECONDS + 3, _SECONDS * scale)
    with short_folder() as folder, whole_stack(folder, nodes=_CLUSTER, launcher="simulated") as stack:
        measured = _drive(stack, seconds)
    profile = Profile(loops=WORK)
    with (
        short_folder() as folder,
        profiled_stack(folder, profile, nodes=_CLUSTER, launcher="simulated") as stack,
    ):
        _drive(stack, min(seconds, _PROFILED_SECONDS))
    return _result(measured, profile, seconds)


@dataclass(frozen=True, slots=True)
class _Driven:
    handovers: Sequence[tuple[_Life, _Life]]
    submitted: int
    cpu: Mapping[str, float]


def _drive(stack: Stack, seconds: float) -> _Driven:
    with stack.client() as client:
        engine = create_engine(stack.parts.postgres.url)
        try:
            require_fsync(engine)
            meter = CpuMeter(stack)
            submitted = _stream(client, seconds)
            cpu = meter.seconds()
            wait_for(lambda: _has_settled(client), "every group has ended", seconds=120, pause=0.5)
            return _Driven(list(_handovers(_lives(engine), seconds)), submitted, cpu)
        finally:
            engine.dispose()


def _stream(client: Client, seconds: float) -> int:
    """Submit what fills the cluster and waits behind it, then at a steady rate; how many in all."""
    chosen, gpus = random.Random(1), _NODES * _GPUS
    mean = gpus / _PER_SECOND
    client.submit_batch([_group(chosen, mean) for _ in range(gpus + _AHEAD)])
    sent, began_at = 0, time.monotonic()
    while (passed := time.monotonic() - began_at) < seconds:
        due = int(passed * _PER_SECOND) - sent
        if due > 0:
            client.submit_batch([_group(chosen, mean) for _ in range(due)])
            sent += due
        time.sleep(_BATCH_SECONDS)
    return sent + gpus + _AHEAD


def _group(chosen: random.Random, mean: float) -> dict[str, object]:
    """One GPU for about `mean` seconds: ends are spread, not in step."""
    seconds = chosen.uniform(0.5, 1.5) * mean
    return {"name": "bench", "members": 1, "gpus": 1, "command": ["simulate", "--seconds", f"{seconds:.3f}"]}


def _has_settled(client: Client) -> bool:
    waiting = next(iter(client.list_groups(is_waiting=True)), None)
    return waiting is None and not any(node.gpus_held for node in client.nodes.list())


def _lives(engine: Engine) -> dict[tuple[int, int], list[_Life]]:
    """By node and device, in their order."""
    lives: dict[tuple[int, int], list[_Life]] = {}
    with engine.connect() as conn:
        for row in conn.execute(text(_LIVES)):
            life = _Life(row.admitted_at, row.running_at, row.ended_at, row.recorded_at)
            for seat in _seats(row.places):
                lives.setdefault(seat, []).append(life)
    for each in lives.values():
        each.sort(key=lambda life: life.running_at)
    return lives


def _seats(places: Sequence[Sequence[Any]]) -> Iterator[tuple[int, int]]:
    """Of rows [member, role, node, [device, ...]]."""
    for _, _, node_id, devices in places:
        for device in devices:
            yield node_id, device


def _handovers(
    lives: Mapping[tuple[int, int], Sequence[_Life]], seconds: float
) -> Iterator[tuple[_Life, _Life]]:
    """Who followed whom on one device, without the beginning and the end of the run."""
    first = min(life.running_at for each in lives.values() for life in each)
    for each in lives.values():
        for before, after in itertools.pairwise(each):
            if _WARM_UP_SECONDS < _between(first, before.ended_at) < seconds:
                yield before, after


def _between(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()


def _result(driven: _Driven, profile: Profile, seconds: float) -> Result:
    handovers = driven.handovers
    gaps = [_between(before.ended_at, after.running_at) for before, after in handovers]
    parts = {
        "end to recorded end": [_between(before.ended_at, before.recorded_at) for before, _ in handovers],
        "recorded end to admission": [
            _between(before.recorded_at, after.admitted_at) for before, after in handovers
        ],
        "admission to start": [_between(after.admitted_at, after.running_at) for _, after in handovers],
    }
    rate = len(handovers) / (seconds - _WARM_UP_SECONDS)
    return Result(
        name="turnover",
        title="From one group to the next",
        reading=(
            f"The whole stack as shipped with a simulated cluster of {_NODES * _GPUS} GPUs on which something"
            f" always waits; groups of one GPU that last half to one and a half seconds come at"
            f" {_PER_SECOND:g} a second. The time runs from the end of a member to the start of the"
            " next group on the same GPU, as they are recorded: what is lost between two groups."
        ),
        parameters={
            "gpus": _NODES * _GPUS,
            "groups_per_second": _PER_SECOND,
            "seconds": round(seconds, 1),
            "submitted": driven.submitted,
            "handovers": len(handovers),
        },
        figures=[
            milliseconds("end to next start, p50", quantile(gaps, 0.5)),
            milliseconds("end to next start, p95", quantile(gaps, 0.95), at_most=40),
            milliseconds("end to next start, p99", quantile(gaps, 0.99)),
            Figure(name="handovers", value=round(rate, 1), unit="1/s"),
        ],
        parts=[
            *(
                milliseconds(f"{name}, {label}", quantile(values, share))
                for name, values in parts.items()
                for label, share in (("p50", 0.5), ("p95", 0.95))
            ),
            *(
                Figure(name=f"CPU of {name}", value=round(100 * used / seconds, 1), unit="% of a core")
                for name, used in sorted(driven.cpu.items(), key=lambda entry: -entry[1])
            ),
            *profile.parts(),
        ],
        limit=_LIMIT,
    )
