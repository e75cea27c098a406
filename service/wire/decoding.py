"""JSON into a struct, strictly: every wrong field is named."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from service.domain.errors import FieldError, InvalidRequest
from service.wire.repeated_keys import find_repeated_key
from service.wire.sentences import readable
from service.wire.wrong_fields import find_wrong_fields

T = TypeVar("T")


def decode(body: bytes, kind: type[T]) -> T:
    """Raises InvalidRequest that names each wrong field, or what msgspec raises if it is no JSON."""
    try:
        found = msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        first = str(error)
    else:
        _refuse_repeated_keys(body)
        return found
    # What is wrong may be said again, and right, so that nobody finds it.
    with suppress(msgspec.ValidationError):
        # A number that nobody could read is not read here either; its field is named below.
        _refuse_repeated_keys(body)
    wrong = find_wrong_fields(body, kind, first=first)
    raise InvalidRequest.of(
        [FieldError(each.path[:300], readable(each.sentence, choices=each.choices)[:500]) for each in wrong]
    )


def _refuse_repeated_keys(body: bytes) -> None:
    if (path := find_repeated_key(body)) is not None:
        raise InvalidRequest.of([FieldError(path[:300], "Is there twice; say it once.")])
