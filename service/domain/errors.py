"""Domain errors state a fact. Only the API gives them an HTTP status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with a request: the path of the field and a sentence."""

    field: str
    message: str


class MusterError(Exception):
    """Base of every error that says something about the request or the state, not about a fault."""

    def __init__(self, message: str, *, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.errors = tuple(errors)


class InvalidRequest(MusterError):
    """The request breaks a rule; `errors` names each field."""

    @classmethod
    def of(cls, errors: Sequence[FieldError]) -> Self:
        """Of at least one error; an empty field is the whole body."""
        return cls(f"{errors[0].field or 'The body'}: {errors[0].message}", errors=errors)


class UnsupportedField(InvalidRequest):
    """The field belongs to a feature that is not built yet."""


class InfeasibleRequest(InvalidRequest):
    """No registered node could ever hold one member of the group."""


class NotFound(MusterError):
    """No such thing, or none that this key may see: both answer alike."""


class Conflict(MusterError):
    """The present state does not allow it."""


class NotAllowed(MusterError):
    """The key's role does not allow this verb at all."""


class NotAuthenticated(MusterError):
    """No key, or one that is not valid."""


class StoreUnavailable(MusterError):
    """PostgreSQL does not answer."""


class InventoryUnavailable(MusterError):
    """Redis does not answer."""
