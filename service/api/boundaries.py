"""What no path and no query may hold, refused before a handler looks at it; and OPTIONS."""

from __future__ import annotations

import functools
from urllib.parse import parse_qsl

from litestar import Litestar
from litestar.enums import HttpMethod, ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.response.base import ASGIResponse
from litestar.routes import HTTPRoute
from litestar.types import ASGIApp, Receive, Scope, Send

from service.api.auth import PUBLIC
from service.domain.errors import FieldError, InvalidRequest, NotFound

_NUL = "\x00"


class Boundaries(ASGIMiddleware):
    """PostgreSQL has no U+0000: no name in a path has one, and no filter may ask for one."""

    scopes = (ScopeType.HTTP,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        if _NUL in scope["path"]:
            raise NotFound("No name holds the character U+0000.")
        query = scope["query_string"]
        if b"%00" in query or b"\x00" in query:
            _refuse(query)
        if scope.get("method") == HttpMethod.OPTIONS:
            # Litestar answers for each handler apart; a path allows what any of its handlers does.
            allow = ", ".join(_methods_of(scope["litestar_app"], scope["path_template"]))
            await ASGIResponse(status_code=204, headers={"allow": allow})(scope, receive, send)
            return
        await next_app(scope, receive, send)


class KnownParameters(ASGIMiddleware):
    """A filter that is spelled wrong would be no filter, and show everything."""

    scopes = (ScopeType.HTTP,)
    exclude_opt_key = PUBLIC

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        if scope["query_string"]:
            known = _parameters_of(scope["litestar_app"], scope["path_template"], str(scope.get("method")))
            given = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            if unknown := sorted({name[:100] for name, _ in given if name not in known}):
                message = "Is not a parameter here." + (
                    f" There are: {', '.join(sorted(known))}." if known else " There is none."
                )
                errors = [FieldError(name, message) for name in unknown]
                raise InvalidRequest(f"{', '.join(unknown)[:300]}: {message}", errors=errors)
        await next_app(scope, receive, send)


@functools.lru_cache(maxsize=256)
def _parameters_of(app: Litestar, path_template: str, method: str) -> frozenset[str]:
    """The query parameters of one operation. Bounded as below."""
    return frozenset(
        parameter.field_alias
        for route in app.routes
        if isinstance(route, HTTPRoute) and route.path_format == path_template
        for name, (_, takes) in route.route_handler_map.items()
        if name == method
        for parameter in takes.expected_query_params
    )


@functools.lru_cache(maxsize=256)
def _methods_of(app: Litestar, path_template: str) -> list[str]:
    """Bounded: path templates are routes, not paths."""
    return sorted(
        {method for route in app.routes if route.path_format == path_template for method in route.methods}
    )


def _refuse(query: bytes) -> None:
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    named = [name.replace(_NUL, "") for name, value in pairs if _NUL in name or _NUL in value]
    errors = [FieldError(name, "Must not contain the character U+0000.") for name in named]
    raise InvalidRequest("A parameter contains the character U+0000.", errors=errors)
