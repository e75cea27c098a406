"""Many open event streams, and what they cost those who submit."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import psutil
from sqlalchemy import Engine, create_engine, text

from bench.cpu import CpuMeter
from bench.http_load import Target
from bench.profiling import SERVING, WORK, Profile, profiled_stack
from bench.results import Figure, Result, milliseconds, quantile
from bench.servers import require_fsync, short_folder, whole_stack
from bench.streams.load import Beside, read_beside
from bench.waiting import wait_for
from service.client import Client
from workers.stack import Stack

_STREAMS = 500
_PER_SECOND = 100.0
_SECONDS = 30.0
_NODES, _GPUS = 63, 8
#: A watched group fails after about so long, and starts again in place: three events.
_LIFE_SECONDS = 15.0
_LIMIT = (
    "One process writes to all streams, on the event loop that also serves the submits. What is new is read"
    " by one statement for all of them, five times a second: that rest is most of the time until an event is"
    " told, and it is chosen. More streams are more API processes, each of which reads for its own."
)
#: As long as to see what many streams cost.
_PROFILED_SECONDS = 10.0
_CLUSTER = f"{_NODES}x{_GPUS}xH100-80GB"
_GROUP = {"name": "bench", "members": 1, "gpus": _GPUS, "command": ["simulate"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Driven:
    """CPU in shares of one core, by process; memory of the API's."""

    found: Beside
    cpu: Mapping[str, float]
    memory_mib: float


def run(scale: float) -> Result:
    """On a stack of its own."""
    seconds = max(3.0, _SECONDS * scale)
    with short_folder() as folder, whole_stack(folder, nodes=_CLUSTER, launcher="simulated") as stack:
        driven = _drive(stack, seconds)
    profile = Profile(loops={**SERVING, **WORK})
    with (
        short_folder() as folder,
        profiled_stack(folder, profile, nodes=_CLUSTER, launcher="simulated") as stack,
    ):
        _drive(stack, min(seconds, _PROFILED_SECONDS))
    return _result(driven, profile, seconds)


def _drive(stack: Stack, seconds: float) -> _Driven:
    engine = create_engine(stack.parts.postgres.url)
    try:
        require_fsync(engine)
        with stack.client() as client:
            ids = _watched(client)
            meter, began_at = CpuMeter(stack), time.monotonic()
            found = asyncio.run(_read(stack, client, ids, engine, seconds))
            took = time.monotonic() - began_at
            cpu = {name: used / took for name, used in meter.seconds().items()}
            return _Driven(found=found, cpu=cpu, memory_mib=_memory_mib(stack))
    finally:
        engine.dispose()


def _watched(client: Client) -> list[str]:
    """Groups that fill the cluster, run, fail and start again for as long as anybody watches."""
    chosen = random.Random(1)
    groups = [
        {
            "name": f"watched-{number}",
            "members": 1,
            "gpus": 1,
            "command": [
                "simulate", "--seconds", f"{chosen.uniform(0.5, 1.5) * _LIFE_SECONDS:.3f}", "--exit-code", "1"
            ],
            "recovery": {"max_restarts": 1000, "backoff": 0},
        }
        for number in range(_STREAMS)
    ]  # fmt: skip
    ids = [group.id for group in client.submit_batch(groups)]
    wait_for(lambda: sum(node.gpus_held for node in client.nodes.list()) >= _STREAMS, "all run")
    return ids


async def _read(stack: Stack, client: Client, ids: Sequence[str], engine: Engine, seconds: float) -> Beside:
    target = Target(port=int(stack.url.rpartition(":")[2]), path="/v1/groups", key=client.address.key or "")
    wanted: Mapping[str, Sequence[int]] = {}

    async def settle() -> None:
        """Let what was recorded by now arrive."""
        nonlocal wanted
        wanted = await asyncio.to_thread(_recorded, engine, ids)
        await asyncio.sleep(2.0)

    found = await read_beside(
        target, msgspec.json.encode(_GROUP), ids, per_second=_PER_SECOND, seconds=seconds, settle=settle
    )
    for reader in found.readers:
        told = reader.ids[: len(wanted[reader.group_id])]
        if told != wanted[reader.group_id]:
            raise RuntimeError(f"the stream of {reader.group_id} missed or repeated an event")
    return found


def _recorded(engine: Engine, ids: Sequence[str]) -> dict[str, list[int]]:
    """The ids of the events of each group, in their order."""
    statement = (
        "SELECT g.public_id::text, array_agg(e.id ORDER BY e.id) FROM events e JOIN groups g"
        " ON g.id = e.group_id WHERE g.public_id = ANY(CAST(:ids AS uuid[])) GROUP BY 1"
    )
    with engine.connect() as conn:
        return {row[0]: list(row[1]) for row in conn.execute(text(statement), {"ids": list(ids)})}


def _memory_mib(stack: Stack) -> float:
    (pid,) = [part.pid for part in stack.parts.watched if part.name == "api" and part.pid is not None]
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def _result(driven: _Driven, profile: Profile, seconds: float) -> Result:
    found = driven.found
    told = [each for reader in found.readers for each in reader.seconds]
    return Result(
        name="streams",
        title="Submits beside open event streams",
        reading=(
            f"{_STREAMS} streams of events are open, each of a group of its own that runs, fails and starts"
            f" again in place about every {_LIFE_SECONDS:g} s, while {_PER_SECOND:g} groups a second are"
            " submitted one by one and wait. A submit's time counts from when it was due, also if an earlier"
            " one was late. The run fails if a stream does not tell each recorded event once and in order."
        ),
        parameters={
            "streams": _STREAMS,
            "submits_per_second": _PER_SECOND,
            "seconds": round(seconds, 1),
            "events_told": len(told),
        },
        figures=[
            milliseconds("single submit, p50", quantile(found.seconds, 0.5)),
            milliseconds("single submit, p99", quantile(found.seconds, 0.99), at_most=50),
            milliseconds("recorded event to its reader, p50", quantile(told, 0.5)),
            milliseconds("recorded event to its reader, p99", quantile(told, 0.99)),
            Figure(name="memory of the API process", value=round(driven.memory_mib), unit="MiB"),
        ],
        parts=[
            *(
                Figure(name=f"CPU of {name}", value=round(100 * share, 1), unit="% of a core")
                for name, share in sorted(driven.cpu.items(), key=lambda entry: -entry[1])
            ),
            *profile.parts(),
        ],
        limit=_LIMIT,
    )
