"""What can go wrong between a client and the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ClientError(Exception):
    """Base of all errors of this package."""


class Unreachable(ClientError):
    """Nobody answers at the address, or the connection broke."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(f"no Muster server answers at {url} ({cause})")
        self.url = url


class AddressWrong(ClientError):
    """The URL or the key cannot be one. The message never holds the key."""


class Unsendable(ClientError):
    """A value of a request has no form in JSON. `path` names it: `roles[0].cpus`; empty for the whole."""

    def __init__(self, path: str, fact: str) -> None:
        super().__init__(f"{path}: {fact}" if path else fact)
        self.path = path


class FileWrong(ClientError):
    """A file cannot be read, or holds something else than what it should. The message names file and line."""


class Unintelligible(ClientError):
    """Who answers is no Muster server, or one of another version."""


@dataclass(frozen=True, slots=True)
class WrongField:
    """One field of the request that is wrong: its path and a sentence."""

    field: str
    message: str


class ApiError(ClientError):
    """The API answered with an error. `status` is HTTP's; `errors` names the fields that are wrong."""

    def __init__(self, *, status: int, title: str, detail: str, errors: Sequence[WrongField] = ()) -> None:
        super().__init__(detail or title)
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = tuple(errors)
