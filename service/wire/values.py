"""Types that wire structs share. Every number has bounds and no string holds U+0000, which
PostgreSQL refuses, so that nothing a request says can become an error of the database."""

from __future__ import annotations

import functools
import math
import re
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from service.domain.errors import FieldError, InvalidRequest
from service.domain.resources import MAX_CPUS_MILLI, MAX_MEMORY_MIB
from service.wire.patterns import DURATION, NAME, NO_NUL_LINES

#: Ten years: longer than anything that is waited for, and an int4 of seconds.
MAX_SECONDS = 315_360_000

#: A name of something: letters, digits, `.`, `_` and `-`, at most 63.
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=63, pattern=NAME)]
#: A line of text for people.
ShortText: TypeAlias = Annotated[str, Meta(max_length=256, pattern=NO_NUL_LINES)]
#: A command's argument or the value of a variable.
LongText: TypeAlias = Annotated[str, Meta(max_length=65_536, pattern=NO_NUL_LINES)]
#: A duration: whole or broken seconds, or text such as `90s`, `10m`, `1h30m`, `2d`.
Duration: TypeAlias = (
    Annotated[str, Meta(max_length=50, pattern=DURATION)] | Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
)
#: CPUs of one member, in CPUs; thousandths count.
Cpus: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_CPUS_MILLI // 1000)]
#: Memory of one member in GiB; 1/1024 counts.
MemoryGib: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_MEMORY_MIB // 1024)]

_UNIT_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


class RequestStruct(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every request body: unknown fields are refused by name. Subclasses repeat
    `frozen=True, kw_only=True`, which the type checker wants to see."""


class AnswerStruct(Struct, frozen=True, kw_only=True):
    """Base of every answer."""


def seconds_of(value: str | float, *, field: str) -> int:
    """A Duration in whole seconds, rounded up. More than MAX_SECONDS is an InvalidRequest."""
    total = _total_seconds(value) if isinstance(value, str) else math.ceil(value)
    if total > MAX_SECONDS:
        message = f"Must be at most {MAX_SECONDS} seconds (ten years)."
        raise InvalidRequest(f"{field} is too long.", errors=[FieldError(field, message)])
    return total


@functools.lru_cache(maxsize=1024)
def _total_seconds(text: str) -> int:
    return sum(int(amount) * _UNIT_SECONDS[unit] for amount, unit in re.findall(r"([0-9]+)([dhms])", text))


def cpus_milli_of(cpus: float) -> int:
    return round(cpus * 1000)


def memory_mib_of(memory_gib: float) -> int:
    return round(memory_gib * 1024)


def number_of(amount: int, per_unit: int) -> float | int:
    """`amount` in its larger unit, without a fraction where there is none: 8000, 1000 -> 8."""
    whole, rest = divmod(amount, per_unit)
    return whole if rest == 0 else amount / per_unit


def whole_if_it_is(number: float) -> float | int:
    """Without a fraction where there is none: 2.0 -> 2."""
    return int(number) if number == int(number) else number


def duration_text(seconds: int) -> str:
    """The shortest text that seconds_of reads as so many: 5400 -> `1h30m`, 0 -> `0s`."""
    parts = []
    for unit, size in _UNIT_SECONDS.items():
        amount, seconds = divmod(seconds, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts) or "0s"
