"""The typed client of Muster's HTTP API.

`Client` is imported when it is first asked for, since the command line wants the errors alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.client.errors import (
    AddressWrong,
    ApiError,
    ClientError,
    Unintelligible,
    Unreachable,
    Unsendable,
)

if TYPE_CHECKING:
    from service.client.client import Client

__all__ = [
    "AddressWrong",
    "ApiError",
    "Client",
    "ClientError",
    "Unintelligible",
    "Unreachable",
    "Unsendable",
]


def __getattr__(name: str) -> object:
    if name == "Client":
        from service.client.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
