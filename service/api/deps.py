"""What handlers are given by name. Annotate the argument with the alias: `engine: EngineDep`.

They come from this process and not from the request, so nothing is validated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from litestar import Request
from litestar.di import NamedDependency, Provide
from litestar.params import SkipValidation
from redis import Redis
from sqlalchemy import Engine

from service.api.auth import KeyRing
from service.api.bells import Bells
from service.api.event_hub import EventHub
from service.api.metrics import RequestTimes, Scrapes
from service.api.readiness import Readiness
from service.clock import Clock
from service.domain.principal import Principal
from service.operations.configuration import KnownConfiguration
from service.operations.secret_box import SecretBox
from service.settings import Settings

EngineDep: TypeAlias = NamedDependency[SkipValidation[Engine]]
#: Retries off, half a second of patience: one that is away answers at once (503).
RedisDep: TypeAlias = NamedDependency[SkipValidation[Redis]]
BellsDep: TypeAlias = NamedDependency[SkipValidation[Bells]]
ClockDep: TypeAlias = NamedDependency[SkipValidation[Clock]]
SettingsDep: TypeAlias = NamedDependency[SkipValidation[Settings]]
KeyRingDep: TypeAlias = NamedDependency[SkipValidation[KeyRing]]
#: Seals secrets.
BoxDep: TypeAlias = NamedDependency[SkipValidation[SecretBox]]
KnownConfigurationDep: TypeAlias = NamedDependency[SkipValidation[KnownConfiguration]]
EventHubDep: TypeAlias = NamedDependency[SkipValidation[EventHub]]
RequestTimesDep: TypeAlias = NamedDependency[SkipValidation[RequestTimes]]
ScrapesDep: TypeAlias = NamedDependency[SkipValidation[Scrapes]]
ReadinessDep: TypeAlias = NamedDependency[SkipValidation[Readiness]]
#: Who calls; only on routes that need a key.
PrincipalDep: TypeAlias = NamedDependency[SkipValidation[Principal]]


def principal_of(request: Request[Principal, Any, Any]) -> Principal:
    return request.user


def dependencies(parts: Mapping[str, object]) -> dict[str, Provide]:
    """Providers of the parts by name, and of the principal."""
    made = {name: Provide(_giver(part), sync_to_thread=False) for name, part in parts.items()}
    return made | {"principal": Provide(principal_of, sync_to_thread=False)}


def _giver(part: object) -> Any:
    return lambda: part
