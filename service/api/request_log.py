"""One line for each request, and its time: never bodies, headers, cookies or query strings."""

from __future__ import annotations

import re
import time

import structlog
import uuid_utils
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from service.api.metrics import RequestTimes

#: An id that a proxy in front has given, if it is harmless in a log.
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
#: Asked for every few seconds by whatever watches the service.
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
#: A flood that is refused must not become a flood of lines; it is counted.
_TOO_MANY = 429
#: The client left before there was an answer.
_NO_ANSWER = 499

_log = structlog.get_logger("muster.request")


class RequestLog:
    """Wraps the application. Log lines of a request carry its id, and so does its answer."""

    def __init__(self, app: ASGIApp, times: RequestTimes) -> None:
        self._app = app
        self._times = times

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        request_id, status, began_at = _id_of(scope), _NO_ANSWER, time.monotonic()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, sending)
            finally:
                self._note(scope, status, time.monotonic() - began_at)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("path_template") or "unknown"
        self._times.observe(seconds, method=_method(scope), route=route, status=status)
        say = _log.debug if status == _TOO_MANY or scope["path"] in _QUIET else _log.info
        say(
            "request",
            method=_method(scope),
            path=scope["path"][:500],
            status=status,
            milliseconds=round(seconds * 1000, 1),
        )


def _id_of(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode() if _REQUEST_ID.fullmatch(given) else uuid_utils.uuid4().hex


def _method(scope: Scope) -> str:
    """A bounded label: clients may send any word."""
    method = str(scope.get("method", ""))
    return method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "OTHER"
