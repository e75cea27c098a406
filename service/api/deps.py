"""What handlers are given by name. Annotate the argument with the alias: `engine: EngineDep`.

They come from this process and not from the request, so nothing is validated. A handler that is called
often and needs several takes `parts: PartsDep`: two dependencies cost Litestar a group of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from litestar import Request
from litestar.di import NamedDependency, Provide
from litestar.params import SkipValidation
from redis import Redis
from sqlalchemy import Engine

from service.api.auth import KeyRing
from service.api.bells import Bells
from service.api.event_hub import EventHub
from service.api.lane import SubmitLane
from service.api.metrics import RequestTimes, Scrapes
from service.api.readiness import Readiness
from service.api.refusals import Refusals
from service.api.turns import Turns
from service.clock import Clock
from service.domain.principal import Principal
from service.operations.configuration import KnownConfiguration
from service.operations.secret_box import SecretBox
from service.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What one API process is made of. Each field is also given by its own name."""

    engine: Engine
    #: Retries off, half a second of patience: one that is away answers at once (503).
    redis: Redis
    bells: Bells
    clock: Clock
    settings: Settings
    key_ring: KeyRing
    #: Seals secrets.
    box: SecretBox
    configuration: KnownConfiguration
    lane: SubmitLane
    checks: Turns
    request_times: RequestTimes
    scrapes: Scrapes
    readiness: Readiness
    hub: EventHub
    refusals: Refusals


PartsDep: TypeAlias = NamedDependency[SkipValidation[Parts]]
EngineDep: TypeAlias = NamedDependency[SkipValidation[Engine]]
RedisDep: TypeAlias = NamedDependency[SkipValidation[Redis]]
BellsDep: TypeAlias = NamedDependency[SkipValidation[Bells]]
ClockDep: TypeAlias = NamedDependency[SkipValidation[Clock]]
SettingsDep: TypeAlias = NamedDependency[SkipValidation[Settings]]
KeyRingDep: TypeAlias = NamedDependency[SkipValidation[KeyRing]]
EventHubDep: TypeAlias = NamedDependency[SkipValidation[EventHub]]
RequestTimesDep: TypeAlias = NamedDependency[SkipValidation[RequestTimes]]
ScrapesDep: TypeAlias = NamedDependency[SkipValidation[Scrapes]]
RefusalsDep: TypeAlias = NamedDependency[SkipValidation[Refusals]]
ReadinessDep: TypeAlias = NamedDependency[SkipValidation[Readiness]]
#: Who calls; only on routes that need a key.
PrincipalDep: TypeAlias = NamedDependency[SkipValidation[Principal]]


#: A request that has its caller: `request.user`.
Caller: TypeAlias = Request[Principal, Any, Any]


def principal_of(request: Request[Principal, Any, Any]) -> Principal:
    return request.user


def dependencies(parts: Parts | None) -> dict[str, Provide]:
    """Providers of all parts, of each by name, and of the principal. None describes them only."""
    made = {
        each.name: Provide(_giver(getattr(parts, each.name, None)), sync_to_thread=False)
        for each in fields(Parts)
    }
    return made | {
        "parts": Provide(_giver(parts), sync_to_thread=False),
        "principal": Provide(principal_of, sync_to_thread=False),
    }


def _giver(part: object) -> Any:
    return lambda: part
