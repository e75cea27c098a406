"""From the wire to the domain: what a request says of a queue becomes its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import UNSET

from service.api.schemas.amounts import amounts_of
from service.api.schemas.queue import QueuePatch, QueueRequest
from service.api.wire import seconds_of
from service.domain.principal import KeyRole
from service.domain.tree import QueueSettings

#: A field that was said, and its name, to what it is stored as.
Reader = Callable[[Any, str], Any]


def new_settings(request: QueueRequest) -> QueueSettings:
    """Raises InvalidRequest that names the field."""
    return changed_settings(QueueSettings(name=request.name), request)


def changed_settings(before: QueueSettings, said: QueueRequest | QueuePatch) -> QueueSettings:
    """`before` with everything that was said. Raises InvalidRequest that names the field."""
    return replace(
        before,
        **_read(said, _OWN),
        quota=replace(before.quota, **_read(said, _OF_QUOTA)),
        policy=replace(before.policy, **_read(said, _OF_POLICY)),
    )


def _read(said: QueueRequest | QueuePatch, readers: Mapping[str, tuple[str, Reader]]) -> dict[str, Any]:
    values = ((field, getattr(said, field)) for field in readers)
    return {
        readers[field][0]: readers[field][1](value, field) for field, value in values if value is not UNSET
    }


def _as_said(value: Any, _: str) -> Any:
    return value


def _quota(value: Mapping[str, float] | None, field: str) -> dict[str, int] | None:
    return None if value is None else amounts_of(value, field)


def _limits(value: Mapping[str, float] | None, field: str) -> dict[str, int]:
    return amounts_of(value or {}, field)


def _names(value: list[str] | None, _: str) -> tuple[str, ...] | None:
    """As a set: their order says nothing."""
    return None if value is None else tuple(sorted(set(value)))


def _seconds(value: str | float | None, field: str) -> int | None:
    return None if value is None else seconds_of(value, field=field)


def _priorities(value: Mapping[KeyRole, int] | None, _: str) -> dict[str, int]:
    return {role.value: highest for role, highest in sorted((value or {}).items())}


#: By field of the wire: the attribute that holds it, and how it is read.
_OWN: Mapping[str, tuple[str, Reader]] = {
    name: (name, _as_said) for name in ("tenant", "cohort", "order", "stop")
}
_OF_QUOTA: Mapping[str, tuple[str, Reader]] = {
    "nominal_quota": ("nominal", _quota),
    "borrowing_limit": ("borrowing", _limits),
    "lending_limit": ("lending", _limits),
    "limit": ("limit", _quota),
}
_OF_POLICY: Mapping[str, tuple[str, Reader]] = {
    "weight": ("weight", _as_said),
    "user_limit": ("user_limit", _limits),
    "group_limit": ("group_limit", _limits),
    "flavors": ("flavors", _names),
    "pools": ("pools", _names),
    "filling": ("filling", _as_said),
    "preempt_within": ("preempt_within", _as_said),
    "reclaim": ("reclaim", _as_said),
    "min_runtime": ("min_runtime_seconds", _seconds),
    "evictions_per_day": ("evictions_per_day", _as_said),
    "highest_priority": ("highest_priority", _priorities),
    "default_time_limit": ("default_time_limit_seconds", _seconds),
    "max_time_limit": ("max_time_limit_seconds", _seconds),
}
