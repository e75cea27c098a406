"""All queues, cohorts and priority classes at once."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from service.client.transport import Transport


class FieldChange(Struct, frozen=True, kw_only=True):
    """None: its default."""

    before: Any
    after: Any


class PolicyChange(Struct, frozen=True, kw_only=True):
    """`kind`: scheduling, priority_class, cohort or queue; `change`: created, changed or deleted."""

    kind: str
    name: str
    change: str
    fields: dict[str, FieldChange]


class PolicyChanges(Struct, frozen=True, kw_only=True):
    """What an apply changed, or would change."""

    is_dry_run: bool
    changes: list[PolicyChange]
    unchanged: int


class Policy:
    """For admins."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask

    def get(self) -> dict[str, Any]:
        """As `apply` takes it."""
        return self._ask("GET", "/v1/policy", dict[str, Any])

    def apply(
        self, policy: dict[str, Any], *, has_prune: bool = False, is_dry_run: bool = False
    ) -> PolicyChanges:
        """All of it or nothing. `has_prune`: what is not named is deleted."""
        query = {"prune": _flag(has_prune), "dry_run": _flag(is_dry_run)}
        return self._ask("PUT", "/v1/policy", PolicyChanges, query=query, body=policy)


def _flag(is_set: bool) -> str | None:
    return "true" if is_set else None
