"""What handlers are given by name. Annotate the argument with the alias: `engine: EngineDep`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from litestar import Request
from litestar.di import NamedDependency, Provide
from redis import Redis
from sqlalchemy import Engine

from service.api.auth import KeyRing
from service.api.bells import Bells
from service.clock import Clock
from service.domain.principal import Principal
from service.settings import Settings

EngineDep: TypeAlias = NamedDependency[Engine]
#: Retries off, half a second of patience: one that is away answers at once (503).
RedisDep: TypeAlias = NamedDependency[Redis]
BellsDep: TypeAlias = NamedDependency[Bells]
ClockDep: TypeAlias = NamedDependency[Clock]
SettingsDep: TypeAlias = NamedDependency[Settings]
KeyRingDep: TypeAlias = NamedDependency[KeyRing]
#: Who calls; only on routes that need a key.
PrincipalDep: TypeAlias = NamedDependency[Principal]


def principal_of(request: Request[Principal, Any, Any]) -> Principal:
    return request.user


def dependencies(parts: Mapping[str, object]) -> dict[str, Provide]:
    """Providers of the parts by name, and of the principal."""
    made = {name: Provide(_giver(part), sync_to_thread=False) for name, part in parts.items()}
    return made | {"principal": Provide(principal_of, sync_to_thread=False)}


def _giver(part: object) -> Any:
    return lambda: part
