"""Deleting what was there a moment ago."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from service.client.errors import ApiError

T = TypeVar("T")


def delete(ask: Callable[[], T], *, before: T) -> T:
    """What the server answers, or `before`: if it is not there any more, then a first request did it, and
    its answer was lost."""
    try:
        return ask()
    except ApiError as error:
        if error.status != 404:
            raise
        return before
