"""Problem details (RFC 9457) for every error, and the only place that knows HTTP statuses.

`type` is stable and `title` belongs to it; `detail` says what happened here; `errors` names the
fields that are wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
import structlog
from litestar import Request, Response
from litestar.enums import ParamType
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, ReadOnlyError
from redis.exceptions import TimeoutError as RedisTimeoutError
from sqlalchemy.exc import DataError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.domain.errors import (
    Conflict,
    FieldError,
    InfeasibleRequest,
    InvalidRequest,
    InventoryUnavailable,
    MusterError,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    StoreUnavailable,
    UnsupportedField,
)
from service.wire.sentences import readable

MEDIA_TYPE = "application/problem+json"

_log = structlog.get_logger("muster.api")


class MalformedBody(MusterError):
    """The body cannot be read as JSON at all."""


def malformed(message: str) -> MalformedBody:
    """The field without a name is the whole body."""
    return MalformedBody(message, errors=[FieldError("", message)])


class UnsupportedMediaType(MusterError):
    """The body is of another type than JSON."""


class TooManyRequests(MusterError):
    """A bound on what one process serves at once, or one caller in a while, is reached. `policy`: the
    bound of a rate, as RateLimit-Policy tells it."""

    def __init__(self, message: str, *, wait_seconds: float = 1.0, policy: str = "") -> None:
        super().__init__(message)
        self.wait_seconds = max(1, math.ceil(wait_seconds))
        self.policy = policy

    def headers(self) -> dict[str, str]:
        """When to come again; of a rate also which one it is and what is left of it."""
        headers = {"Retry-After": str(self.wait_seconds)}
        if self.policy:
            name = self.policy.partition(";")[0]
            headers |= {"RateLimit-Policy": self.policy, "RateLimit": f"{name};r=0;t={self.wait_seconds}"}
        return headers


class ProblemField(msgspec.Struct, frozen=True):
    """One field that is wrong: its path (`roles[0].count`), empty for the whole body, and why."""

    field: str
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Problem details of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: tuple[ProblemField, ...] = ()
    #: Given where the log holds more.
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem: the end of its `type`, its HTTP status and its title."""

    slug: str
    status: int
    title: str


#: The most special class that an error belongs to decides.
KINDS: dict[type[Exception], Kind] = {
    InvalidRequest: Kind("invalid-request", 422, "The request breaks a rule"),
    UnsupportedField: Kind("unsupported-field", 422, "The field is not supported yet"),
    InfeasibleRequest: Kind("infeasible-request", 422, "No node could ever hold this"),
    MalformedBody: Kind("malformed-body", 400, "The body cannot be read"),
    UnsupportedMediaType: Kind("unsupported-media-type", 415, "The body is not JSON"),
    NotAuthenticated: Kind("not-authenticated", 401, "A valid key is needed"),
    NotAllowed: Kind("not-allowed", 403, "The key's role does not allow this"),
    NotFound: Kind("not-found", 404, "There is no such thing"),
    Conflict: Kind("conflict", 409, "The present state does not allow this"),
    TooManyRequests: Kind("too-many-requests", 429, "Too much at once"),
    StoreUnavailable: Kind("store-unavailable", 503, "PostgreSQL does not answer"),
    InventoryUnavailable: Kind("inventory-unavailable", 503, "Redis does not answer"),
}
BAD_REQUEST = Kind("bad-request", 400, "The request cannot be understood")
#: Of connections: answered where no handler is.
TOO_SLOW = Kind("request-timeout", 408, "The request did not come whole in time")
HEAD_TOO_LARGE = Kind("head-too-large", 431, "The head of the request is too large")
BODIES = KINDS[TooManyRequests]
_HTTP_KINDS = {
    400: BAD_REQUEST,
    404: Kind("not-found", 404, "There is no such thing"),
    405: Kind("method-not-allowed", 405, "The method is not allowed here"),
    408: TOO_SLOW,
    413: Kind("body-too-large", 413, "The body is too large"),
    431: HEAD_TOO_LARGE,
}
#: Litestar's words for a connection that was closed before the whole body had come.
_CLIENT_LEFT = "client disconnected prematurely"
_NO_ANSWER = "PostgreSQL does not answer in time. Try again."
_NO_ROOM = "PostgreSQL has no room left on its disk: nothing was changed. Try again when there is some."
_INTERNAL = Kind("internal-error", 500, "Something went wrong in Muster")


def handle_muster_error(_: Request[Any, Any, Any], error: MusterError) -> Response[bytes]:
    kind = next(KINDS[cls] for cls in type(error).__mro__ if cls in KINDS)
    headers = {}
    if kind.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TooManyRequests):
        headers |= error.headers()
    elif kind.status == 503:
        headers["Retry-After"] = "1"
    return problem(kind, error.message, errors=error.errors, headers=headers)


def handle_http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """What Litestar raises itself: unknown paths, wrong methods, parameters, sizes."""
    if isinstance(error, ValidationException):
        return handle_muster_error(request, _invalid_parameters(error))
    if error.detail == _CLIENT_LEFT:
        return handle_muster_error(request, malformed("The body ended early."))
    if error.status_code >= 500:
        return handle_anything(request, error)
    kind = _HTTP_KINDS.get(error.status_code) or Kind(
        "bad-request", error.status_code, "The request is refused"
    )
    return problem(kind, _detail_of(kind, request), headers=dict(error.headers or {}))


def handle_store_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    _log.warning("postgresql_away", error=type(cause).__name__)
    detail = _NO_ROOM if isinstance(cause, psycopg.errors.DiskFull) else _NO_ANSWER
    return handle_muster_error(request, StoreUnavailable(detail))


def handle_inventory_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    _log.warning("redis_away", error=type(error).__name__)
    return handle_muster_error(request, InventoryUnavailable("Redis does not answer in time. Try again."))


def handle_data_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """A value that the edge should have bounded: the caller's fault, and a gap to close here."""
    _log.error("value_refused_by_postgresql", error=type(error).__name__)
    return handle_muster_error(request, InvalidRequest("A value of the request cannot be stored."))


def handle_recursion(request: Request[Any, Any, Any], _: RecursionError) -> Response[bytes]:
    return handle_muster_error(request, malformed("The body is nested too deeply."))


def handle_anything(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """What nobody foresaw: logged in full, answered without any of it."""
    _log.error("unhandled_error", exc_info=error)
    return problem(_INTERNAL, "Muster failed to answer this request; its log says why.", is_logged=True)


#: For Litestar: the handler of the most special class is used.
HANDLERS: ExceptionHandlersMap = {
    MusterError: handle_muster_error,
    HTTPException: handle_http_exception,
    OperationalError: handle_store_error,
    InterfaceError: handle_store_error,
    PoolTimeout: handle_store_error,
    psycopg.OperationalError: handle_store_error,
    RedisConnectionError: handle_inventory_error,
    RedisTimeoutError: handle_inventory_error,
    ReadOnlyError: handle_inventory_error,
    OutOfMemoryError: handle_inventory_error,
    DataError: handle_data_error,
    psycopg.DataError: handle_data_error,
    RecursionError: handle_recursion,
    Exception: handle_anything,
}


def problem(
    kind: Kind,
    detail: str,
    *,
    errors: tuple[FieldError, ...] = (),
    headers: dict[str, str] | None = None,
    is_logged: bool = False,
) -> Response[bytes]:
    request_id = structlog.contextvars.get_contextvars().get("request_id") if is_logged else None
    body = document(kind, detail, errors=errors, request_id=request_id)
    return Response(body, status_code=kind.status, media_type=MEDIA_TYPE, headers=headers or {})


def document(
    kind: Kind, detail: str, *, errors: tuple[FieldError, ...] = (), request_id: str | None = None
) -> bytes:
    """A problem document as JSON."""
    body = Problem(
        type=f"/problems/{kind.slug}",
        title=kind.title,
        status=kind.status,
        detail=detail,
        errors=tuple(ProblemField(error.field, error.message) for error in errors),
        request_id=request_id,
    )
    return msgspec.json.encode(body)


def _invalid_parameters(error: ValidationException) -> MusterError:
    found = [entry for entry in (error.extra or []) if isinstance(entry, dict)]
    errors = [
        FieldError(_sent_name(entry), readable(str(entry.get("message", "is wrong")))) for entry in found
    ]
    if [each.field for each in errors] == ["data"]:
        # Bodies are decoded elsewhere: this is one that is not there.
        return malformed("A JSON body is needed.")
    detail = "; ".join(f"{each.field}: {each.message}" for each in errors) or "A parameter is wrong."
    return InvalidRequest(detail, errors=errors)


def _sent_name(entry: dict[str, Any]) -> str:
    """A header goes by the name of a Python argument in Litestar's words."""
    name = str(entry.get("key", ""))
    return name.replace("_", "-").title() if entry.get("source") == ParamType.HEADER else name


def _detail_of(kind: Kind, request: Request[Any, Any, Any]) -> str:
    path = request.scope["path"][:200]
    if kind.status == 404:
        return f"There is nothing at {path}."
    if kind.status == 405:
        return f"{request.method[:20]} is not allowed at {path}."
    if kind.status == 413:
        return "The body is larger than this server takes."
    return kind.title + "."
