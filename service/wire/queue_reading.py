"""From the wire to the domain: what a request says of a queue becomes its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.domain.principal import KeyRole
from service.domain.tree import QueueSettings
from service.wire.amounts import amounts_of
from service.wire.queue import QueuePatch, QueueRequest
from service.wire.said import Readers, as_limits, as_said, read_said
from service.wire.values import seconds_of


def new_settings(request: QueueRequest) -> QueueSettings:
    """Raises InvalidRequest that names the field."""
    return changed_settings(QueueSettings(name=request.name), request)


def changed_settings(before: QueueSettings, said: QueueRequest | QueuePatch) -> QueueSettings:
    """`before` with everything that was said. Raises InvalidRequest that names the field."""
    return replace(
        before,
        **read_said(said, _OWN),
        quota=replace(before.quota, **read_said(said, _OF_QUOTA)),
        policy=replace(before.policy, **read_said(said, _OF_POLICY)),
    )


def _quota(value: Mapping[str, float] | None, field: str) -> dict[str, int] | None:
    return None if value is None else amounts_of(value, field)


def _names(value: list[str] | None, _: str) -> tuple[str, ...] | None:
    """As a set: their order says nothing."""
    return None if value is None else tuple(sorted(set(value)))


def _seconds(value: str | float | None, field: str) -> int | None:
    return None if value is None else seconds_of(value, field=field)


def _priorities(value: Mapping[KeyRole, int] | None, _: str) -> dict[str, int]:
    return {role.value: highest for role, highest in sorted((value or {}).items())}


_OWN: Readers = {name: (name, as_said) for name in ("tenant", "cohort", "order", "stop")}
_OF_QUOTA: Readers = {
    "nominal_quota": ("nominal", _quota),
    "borrowing_limit": ("borrowing", as_limits),
    "lending_limit": ("lending", as_limits),
    "limit": ("limit", _quota),
}
_OF_POLICY: Readers = {
    "weight": ("weight", as_said),
    "order_by": ("order_by", as_said),
    "user_limit": ("user_limit", as_limits),
    "group_limit": ("group_limit", as_limits),
    "flavors": ("flavors", _names),
    "pools": ("pools", _names),
    "filling": ("filling", as_said),
    "preempt_within": ("preempt_within", as_said),
    "reclaim": ("reclaim", as_said),
    "min_runtime": ("min_runtime_seconds", _seconds),
    "evictions_per_day": ("evictions_per_day", as_said),
    "highest_priority": ("highest_priority", _priorities),
    "default_time_limit": ("default_time_limit_seconds", _seconds),
    "max_time_limit": ("max_time_limit_seconds", _seconds),
}
