"""Submits over HTTP into a full cluster, one by one beside a bare handler, and in batches."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from bench.cpu import CpuMeter, cpu_seconds
from bench.http_load import Load, Target, drive, until
from bench.profiling import SERVING, Profile, profiled_stack
from bench.results import Figure, Result, milliseconds, quantile
from bench.servers import short_folder, whole_stack
from bench.submit import bare
from bench.submit.targets import GROUP, BareServer, bare_server, full
from workers.stack import Stack

_NODES, _GPUS = 50, 8
_CLUSTER = f"{_NODES}x{_GPUS}xH100-80GB"
_CONNECTIONS = 16
_ROUNDS = 3
_ROUND_SECONDS = 10.0
_BATCH, _BATCH_CONNECTIONS, _BATCHES = 1000, 2, 20
_LIMIT = (
    "A single submit spends most on what the server and the framework do for any request, which the bare"
    " handler pays too: one process, one interpreter lock. What sixteen callers share of Muster's own could"
    " still shrink. Each group of a batch is seen by three processes: the API reads and checks it and writes"
    " its four rows as text, PostgreSQL keeps eleven indexes of them, and the cycle reads it back. They share"
    " two cores, and both are busy."
)


@dataclass(slots=True)
class _Singles:
    """Both loads, round by round, and what the stack's processes used for Muster's."""

    muster: list[Load] = field(default_factory=list)
    bare: list[Load] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)
    bare_cpu_seconds: float = 0.0

    @property
    def ours(self) -> list[float]:
        """Seconds of each submit."""
        return [seconds for load in self.muster for seconds in load.seconds]

    @property
    def theirs(self) -> list[float]:
        """Seconds of each call of the bare handler."""
        return [seconds for load in self.bare for seconds in load.seconds]

    def add_cpu(self, used: Mapping[str, float]) -> None:
        for name, seconds in used.items():
            self.cpu[name] = self.cpu.get(name, 0.0) + seconds


def run(scale: float) -> Result:
    """On stacks of their own: one is measured, two are looked at."""
    with (
        short_folder() as folder,
        whole_stack(folder, nodes=_CLUSTER, launcher="simulated") as stack,
        bare_server(stack) as beside,
    ):
        targets = full(stack, nodes=_NODES, gpus=_GPUS)
        singles = _singles(stack, targets.single, beside, scale)
        meter = CpuMeter(stack)
        batches = _batches(targets.batch, scale)
        batch_cpu = meter.seconds()
    profiles = {"single": Profile(loops=SERVING), "batch": Profile(loops=SERVING)}
    for kind, profile in profiles.items():
        with (
            short_folder() as folder,
            profiled_stack(folder, profile, nodes=_CLUSTER, launcher="simulated") as stack,
        ):
            targets = full(stack, nodes=_NODES, gpus=_GPUS)
            if kind == "single":
                _for_a_while(targets.single, msgspec.json.encode(GROUP), scale)
            else:
                _batches(targets.batch, 3 * scale)
    return _result(singles, batches, batch_cpu, profiles=profiles)


def _singles(stack: Stack, target: Target, bare_server: BareServer, scale: float) -> _Singles:
    """In turns, so that what else the machine does falls on both."""
    found, body = _Singles(), msgspec.json.encode(GROUP)
    beside = Target(port=bare_server.port, path=bare.PATH)
    for _ in range(_ROUNDS):
        used = cpu_seconds(bare_server.pid)
        found.bare.append(_for_a_while(beside, body, scale))
        found.bare_cpu_seconds += cpu_seconds(bare_server.pid) - used
        meter = CpuMeter(stack)
        found.muster.append(_for_a_while(target, body, scale))
        found.add_cpu(meter.seconds())
    return found


def _for_a_while(target: Target, body: bytes, scale: float) -> Load:
    deadline = time.monotonic() + _ROUND_SECONDS * scale
    return drive(target, lambda: until(deadline, body), connections=_CONNECTIONS)


def _batches(target: Target, scale: float) -> Load:
    body = msgspec.json.encode({"groups": [GROUP] * _BATCH})
    each = max(2, round(_BATCHES * scale))
    return drive(target, lambda: iter([body] * each), connections=_BATCH_CONNECTIONS)


def _result(
    singles: _Singles, batches: Load, batch_cpu: Mapping[str, float], *, profiles: Mapping[str, Profile]
) -> Result:
    return Result(
        name="submit",
        title="Submits over HTTP",
        reading=(
            f"The whole stack as shipped, a simulated cluster of {_NODES * _GPUS} GPUs that are all held, and"
            f" one API process. {_CONNECTIONS} connections submit one group after the other, in"
            f" {_ROUNDS} rounds that take turns with a bare handler: the same server and framework, two"
            " inserts in a transaction and one call of Redis, in a process beside the same running stack. The"
            " ratio of the two is the figure to compare between machines. The load generator runs on the"
            " same cores. Batches follow, while everything submitted before waits."
        ),
        parameters={
            "connections": _CONNECTIONS,
            "rounds": _ROUNDS,
            "groups_per_batch": _BATCH,
            "batch_connections": _BATCH_CONNECTIONS,
            "batches": len(batches.seconds),
        },
        figures=_figures(singles, batches),
        parts=_parts(singles, batches, batch_cpu, profiles=profiles),
        limit=_LIMIT,
    )


def _figures(singles: _Singles, batches: Load) -> list[Figure]:
    bare_rate = sum(load.per_second for load in singles.bare) / _ROUNDS
    rate = sum(load.per_second for load in singles.muster) / _ROUNDS
    return [
        Figure(
            name="single submits to bare handler",
            value=round(rate / bare_rate, 3),
            unit="ratio",
            at_least=0.65,
        ),
        Figure(name="single submits", value=round(rate, 1), unit="1/s"),
        Figure(name="bare handler", value=round(bare_rate, 1), unit="1/s"),
        milliseconds("single submit, p50", quantile(singles.ours, 0.5)),
        milliseconds("single submit, p99", quantile(singles.ours, 0.99), at_most=40),
        milliseconds("bare handler, p99", quantile(singles.theirs, 0.99)),
        Figure(
            name="groups in batches",
            value=round(batches.per_second * _BATCH),
            unit="groups/s",
            at_least=20_000,
        ),
        milliseconds("batch, p99", quantile(batches.seconds, 0.99), at_most=150),
    ]


def _parts(
    singles: _Singles, batches: Load, batch_cpu: Mapping[str, float], *, profiles: Mapping[str, Profile]
) -> list[Figure]:
    return [
        *(
            Figure(name=f"CPU of {name}", value=_micros(seconds, singles.ours), unit="µs a single submit")
            for name, seconds in sorted(singles.cpu.items(), key=lambda entry: -entry[1])
        ),
        Figure(
            name="CPU of the bare handler",
            value=_micros(singles.bare_cpu_seconds, singles.theirs),
            unit="µs a call",
        ),
        *(
            Figure(
                name=f"batches: CPU of {name}",
                value=round(1e6 * seconds / (len(batches.seconds) * _BATCH)),
                unit="µs a group",
            )
            for name, seconds in sorted(batch_cpu.items(), key=lambda entry: -entry[1])
        ),
        *(
            msgspec.structs.replace(part, name=f"{kind}: {part.name}")
            for kind, profile in profiles.items()
            for part in profile.parts()
        ),
    ]


def _micros(seconds: float, requests: Sequence[float]) -> int:
    return round(1e6 * seconds / len(requests))
