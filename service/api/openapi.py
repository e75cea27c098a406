"""openapi.json, made from the code: `python -m service.api.openapi > openapi/openapi.json`.

Litestar documents handlers and structs. What it does not know, or tells otherwise than it is, is put
right here: problem details, who needs a key, and that unknown fields are refused.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import License
from litestar.routes import HTTPRoute

from service import __version__
from service.api.app import ROUTES
from service.api.auth import PUBLIC
from service.api.deps import dependencies
from service.api.problems import MEDIA_TYPE

#: Operations whose request can be right and still not go with the present state.
_CONFLICTS = frozenset(
    [
        "submit-group",
        "submit-batch",
        "cancel-member",
        "create-queue",
        "delete-queue",
        "create-cohort",
        "delete-cohort",
        "apply-policy",
    ]
)

_DESCRIPTION = """\
Muster admits GPU jobs by the whole group.

Every request but those of `/healthz`, `/readyz`, `/metrics` and `/openapi.json` needs a key:
`Authorization: Bearer KEY`. Times are RFC 3339, durations are seconds or text such as `90s`, `10m`,
`1h30m`. Every error is a problem document (RFC 9457): its `type` is stable, and `errors` names the
fields that are wrong.
"""

Json = dict[str, Any]


@functools.cache
def document() -> Json:
    """The whole document. The same code makes the same document."""
    app = Litestar(
        route_handlers=ROUTES,
        dependencies=dependencies(None),
        return_dto=None,
        openapi_config=OpenAPIConfig(
            title="Muster",
            version=__version__,
            description=_DESCRIPTION,
            license=License(name="Apache-2.0", identifier="Apache-2.0"),
            use_handler_docstrings=True,
            path="/openapi",
        ),
    )
    made: Json = msgspec.json.decode(msgspec.json.encode(app.openapi_schema.to_schema()))
    handlers = {handler.operation_id: handler for handler in _handlers(app)}
    for path, item in made["paths"].items():
        for operation in item.values():
            handler = handlers[operation["operationId"]]
            _describe_request(operation, handler)
            _describe_errors(operation, handler, path)
    schemas = made["components"]["schemas"]
    made["components"]["schemas"] = schemas | _exact_schemas(schemas) | {"Problem": _PROBLEM}
    made["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key of this API."}
    }
    made["security"] = [{"key": []}]
    return made


def main() -> None:
    """Write the document in one stable form."""
    json.dump(document(), sys.stdout, indent=2, sort_keys=True, ensure_ascii=False)
    sys.stdout.write("\n")


def _handlers(app: Litestar) -> Iterator[HTTPRouteHandler]:
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            yield from route.route_handlers


def _describe_request(operation: Json, handler: HTTPRouteHandler) -> None:
    if handler.parsed_data_field is not None and handler.parsed_data_field.has_default:
        operation["requestBody"]["required"] = False
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        # Litestar writes bounds of whole numbers as floats, and large ones then lose their last digits.
        schema |= {name: int(schema[name]) for name in ("minimum", "maximum") if name in schema}


def _describe_errors(operation: Json, handler: HTTPRouteHandler, path: str) -> None:
    """Replace what Litestar says about errors by what problems.py does."""
    responses = {status: each for status, each in operation["responses"].items() if int(status) < 400}
    for status in sorted(_errors_of(operation, handler, path)):
        responses[str(status)] = {
            "description": _ERRORS[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    operation["responses"] = responses
    if handler.opt.get(PUBLIC):
        operation["security"] = []


def _errors_of(operation: Json, handler: HTTPRouteHandler, path: str) -> Iterator[int]:
    name = operation["operationId"]
    if name != "get-health":
        yield 503
    if not handler.opt.get(PUBLIC):
        yield from (401, 429)
    if handler.resolve_guards():
        yield 403
    if "{" in path:
        yield 404
    if "requestBody" in operation:
        yield from (400, 413, 415, 422)
    elif "GET" not in handler.http_methods:
        yield from (400, 413)  # a body that nobody expects is looked at
    if not handler.opt.get(PUBLIC):
        yield 422  # also for a parameter that is not known
    if name in _CONFLICTS:
        yield 409


def _exact_schemas(named: Iterable[str]) -> Json:
    """The schemas of these structs and of all that they hold, as msgspec decodes them: with bounds at
    every depth, and closed where unknown fields are refused."""
    kinds = {
        kind.__name__: kind
        for kind in _subclasses(msgspec.Struct)
        if kind.__module__.startswith(("service.api.", "service.wire."))
    }
    shown = [kinds[name] for name in named if name in kinds]
    _, components = msgspec.json.schema_components(shown, ref_template="#/components/schemas/{name}")
    return components


def _subclasses(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


_ERRORS = {
    400: "The body cannot be read",
    401: "No valid key",
    403: "The key's role does not allow this",
    404: "No such thing, or none that this key may see",
    409: "The present state does not allow this",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "Something in the request breaks a rule; `errors` names the fields",
    429: "Too much at once, or more requests than this key may send; `Retry-After` says when to try again",
    503: "PostgreSQL or Redis does not answer",
}

_PROBLEM: Json = {
    "title": "Problem",
    "description": "Problem details (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "additionalProperties": False,
    "properties": {
        "type": {"type": "string", "description": "Names the kind of problem; stable."},
        "title": {"type": "string", "description": "The kind of problem in words."},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "What happened here."},
        "errors": {
            "type": "array",
            "description": "The fields that are wrong.",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "additionalProperties": False,
                "properties": {
                    "field": {
                        "type": "string",
                        "description": "Its path, such as roles[0].count; empty for the whole body.",
                    },
                    "message": {"type": "string"},
                },
            },
        },
        "request_id": {"type": "string", "description": "Finds the log lines of this request."},
    },
}


if __name__ == "__main__":
    main()
