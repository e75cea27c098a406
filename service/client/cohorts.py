"""Cohorts. Amounts by flavor in GPUs, `cpus` in CPUs, `memory_gib` in GiB."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from service.client.deleting import delete
from service.client.transport import Transport, segment


class Cohort(Struct, frozen=True, kw_only=True):
    """`cohorts` and `queues`: what is directly in it. `total_quota`: with that of everything below it, which
    together holds `used`."""

    name: str
    parent: str | None
    weight: float
    nominal_quota: dict[str, float]
    borrowing_limit: dict[str, float]
    lending_limit: dict[str, float]
    cohorts: list[str]
    queues: list[str]
    total_quota: dict[str, float]
    used: dict[str, float]
    borrowed: dict[str, float]
    created_at: datetime


class _CohortList(Struct, frozen=True):
    cohorts: list[Cohort]


class Cohorts:
    """Reading is for everybody, changing for admins."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask

    def list(self) -> list[Cohort]:
        return self._ask("GET", "/v1/cohorts", _CohortList).cohorts

    def get(self, name: str) -> Cohort:
        return self._ask("GET", f"/v1/cohorts/{segment(name)}", Cohort)

    def create(self, name: str, fields: Mapping[str, object]) -> Cohort:
        """`fields` as the API names them: parent, weight, nominal_quota, borrowing_limit, lending_limit."""
        body = {"name": name, **fields}
        return self._ask("POST", "/v1/cohorts", Cohort, body=body, is_repeatable=False)

    def update(self, name: str, fields: Mapping[str, object]) -> Cohort:
        """A map among `fields` replaces the whole map."""
        return self._ask("PATCH", f"/v1/cohorts/{segment(name)}", Cohort, body=dict(fields))

    def delete(self, name: str) -> Cohort:
        """The cohort as it was."""
        cohort = self.get(name)
        return delete(lambda: self._ask("DELETE", f"/v1/cohorts/{segment(name)}", Cohort), before=cohort)
