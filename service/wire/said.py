"""From the wire to the domain: of what a request may say of a thing, that which it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import UNSET, Struct

from service.wire.amounts import amounts_of

#: A field that was said, and its name, to what it is stored as.
Reader: TypeAlias = Callable[[Any, str], Any]
#: By field of the wire: the attribute that holds it, and how it is read.
Readers: TypeAlias = Mapping[str, tuple[str, Reader]]


def read_said(said: Struct, readers: Readers) -> dict[str, Any]:
    """By attribute. Raises InvalidRequest that names the field."""
    values = ((field, getattr(said, field)) for field in readers)
    return {
        readers[field][0]: readers[field][1](value, field) for field, value in values if value is not UNSET
    }


def as_said(value: Any, _: str) -> Any:
    return value


def as_limits(value: Mapping[str, float] | None, field: str) -> dict[str, int]:
    return amounts_of(value or {}, field)
