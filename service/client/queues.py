"""Queues. Amounts by flavor in GPUs, `cpus` in CPUs, `memory_gib` in GiB."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from service.client.errors import ApiError
from service.client.transport import Transport, segment


class Queue(Struct, frozen=True, kw_only=True):
    """`nominal_quota` None: no quota. `demanded`: used, and what its waiting groups ask for."""

    name: str
    tenant: str | None
    order: str
    stop: str
    nominal_quota: dict[str, float] | None
    limit: dict[str, float]
    used: dict[str, float]
    demanded: dict[str, float]
    waiting: int
    created_at: datetime


class _QueueList(Struct, frozen=True):
    queues: list[Queue]


class Queues:
    """Reading is for everybody, changing for admins."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask

    def list(self) -> list[Queue]:
        return self._ask("GET", "/v1/queues", _QueueList).queues

    def get(self, name: str) -> Queue:
        return self._ask("GET", f"/v1/queues/{segment(name)}", Queue)

    def create(self, name: str, fields: Mapping[str, object]) -> Queue:
        """`fields` as the API names them: tenant, order, stop, nominal_quota, limit."""
        body = {"name": name, **fields}
        return self._ask("POST", "/v1/queues", Queue, body=body, is_repeatable=False)

    def update(self, name: str, fields: Mapping[str, object]) -> Queue:
        """A map among `fields` replaces the whole map."""
        return self._ask("PATCH", f"/v1/queues/{segment(name)}", Queue, body=dict(fields))

    def delete(self, name: str) -> Queue:
        """The queue as it was."""
        queue = self.get(name)
        try:
            return self._ask("DELETE", f"/v1/queues/{segment(name)}", Queue)
        except ApiError as error:
            if error.status != 404:
                raise
            # It was there. A first request did it, and its answer was lost.
            return queue
