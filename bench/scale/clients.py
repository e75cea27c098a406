"""Submits over HTTP by clients that submit at once, one by one and in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from bench.http_load import Load, drive
from bench.results import quantile
from bench.servers import require_fsync, short_folder, whole_stack
from bench.submit.targets import GROUP, Targets, full
from service.store.engine import make_engine
from workers.stack import Stack

_NODES, _GPUS = 50, 8
#: Groups of a request: 1 is a single submit.
BATCHES = (1, 100, 1000)
#: A client submits so many in all, in requests of each size; beyond so many clients a batch only waits.
_GROUPS_OF_CLIENTS = {1: 4000, 100: 20_000, 1000: 24_000}
_MOST_CLIENTS = {1: 64, 100: 16, 1000: 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """`clients` connections, each of which sends requests of `batch` groups one after the other."""

    clients: int
    batch: int
    groups_per_second: float
    p99: float


def measure_clients(
    clients: Sequence[int], *, scale: float, say: Callable[[str], None], is_durable: bool = True
) -> list[Rate]:
    """On a stack of its own, whose cluster is full."""
    with (
        short_folder() as folder,
        whole_stack(folder, nodes=f"{_NODES}x{_GPUS}xH100-80GB", launcher="simulated") as stack,
    ):
        if is_durable:
            _require_fsync(stack)
        targets = full(stack, nodes=_NODES, gpus=_GPUS)
        # The first requests of all find caches empty.
        _load(targets, batch=1, clients=2, requests=50)
        rates = []
        for batch in BATCHES:
            for count in clients:
                if count > _MOST_CLIENTS[batch]:
                    continue
                say(f"{count} clients, {batch:,} groups a request")
                requests = max(2, round(scale * _GROUPS_OF_CLIENTS[batch] / batch / count))
                load = _load(targets, batch=batch, clients=count, requests=requests)
                rates.append(
                    Rate(
                        clients=count,
                        batch=batch,
                        groups_per_second=batch * load.per_second,
                        p99=quantile(load.seconds, 0.99),
                    )
                )
        return rates


def _load(targets: Targets, *, batch: int, clients: int, requests: int) -> Load:
    if batch == 1:
        target, body = targets.single, msgspec.json.encode(GROUP)
    else:
        target, body = targets.batch, msgspec.json.encode({"groups": [GROUP] * batch})
    return drive(target, lambda: iter([body] * requests), connections=clients)


def _require_fsync(stack: Stack) -> None:
    engine = make_engine(stack.parts.postgres.url)
    try:
        require_fsync(engine)
    finally:
        engine.dispose()
