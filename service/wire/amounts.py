"""Amounts by resource on the wire: flavors in GPUs, `cpus` in CPUs, `memory_gib` in GiB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, TypeAlias

from msgspec import Meta

from service.domain.errors import FieldError, InvalidRequest
from service.domain.resources import CPUS, MEMORY
from service.wire.patterns import LINE
from service.wire.values import cpus_milli_of, memory_mib_of, number_of

_CPUS, _MEMORY = "cpus", "memory_gib"
_LEAST = {_CPUS: "0.001", _MEMORY: "1/1024"}

Flavor: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, pattern=LINE)]
Amount: TypeAlias = Annotated[float, Meta(ge=0, le=1_000_000_000)]
#: Flavor to whole GPUs, and `cpus` and `memory_gib`.
Amounts: TypeAlias = Annotated[dict[Flavor, Amount], Meta(max_length=256)]


def amounts_answer(amounts: Mapping[str, int]) -> dict[str, float]:
    """Amounts by resource, in the units of the wire."""
    shown: dict[str, float] = {
        flavor: amount for flavor, amount in amounts.items() if flavor not in (CPUS, MEMORY)
    }
    if CPUS in amounts:
        shown[_CPUS] = number_of(amounts[CPUS], 1000)
    if MEMORY in amounts:
        shown[_MEMORY] = number_of(amounts[MEMORY], 1024)
    return dict(sorted(shown.items()))


def amounts_of(amounts: Mapping[str, float], field: str) -> dict[str, int]:
    """By resource, in its smallest unit. Raises InvalidRequest that names the entry of `field`."""
    errors = list(_wrong(amounts, field))
    if errors:
        raise InvalidRequest.of(errors)
    return dict(_resource(name, amount) for name, amount in amounts.items())


def _resource(name: str, amount: float) -> tuple[str, int]:
    if name == _CPUS:
        return CPUS, cpus_milli_of(amount)
    if name == _MEMORY:
        return MEMORY, memory_mib_of(amount)
    return name, int(amount)


def _wrong(amounts: Mapping[str, float], field: str) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        if name == MEMORY:
            yield FieldError(f"{field}.{name}", "Memory is named memory_gib.")
        elif name not in (_CPUS, _MEMORY) and amount != int(amount):
            yield FieldError(f"{field}.{name}", "GPUs are whole numbers.")
        elif amount and not _resource(name, amount)[1]:
            # It would be an amount of 0, which allows nothing.
            yield FieldError(f"{field}.{name}", f"Must be 0, or at least {_LEAST[name]}.")


def resource_name(resource: str) -> str:
    """As it is called on the wire."""
    return _MEMORY if resource == MEMORY else resource


def resource_of(name: str) -> str:
    """The resource that has this name on the wire."""
    return MEMORY if name == _MEMORY else name


def unit_of(resource: str) -> int:
    """How much of the smallest unit is one on the wire."""
    return {CPUS: 1000, MEMORY: 1024}.get(resource, 1)
