"""Request bodies, decoded once and strictly.

Litestar's own path converts leniently ("5" passes for a number) and decodes twice; this reads the
bytes straight into the struct and says which field is wrong.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from litestar import Request
from litestar.dto import AbstractDTO
from litestar.dto.data_structures import DTOFieldDefinition
from litestar.openapi.spec import Reference, Schema
from litestar.typing import FieldDefinition

from service.api.half_pairs import find_half_pair
from service.api.problems import UnsupportedMediaType, malformed
from service.domain.errors import FieldError, InvalidRequest
from service.wire.decoding import decode
from service.wire.values import RequestStruct

if TYPE_CHECKING:
    from litestar._openapi.schema_generation import SchemaCreator

#: Batches of groups are large; anything beyond this is refused before it is read.
MAX_BODY_BYTES = 16 * 1024 * 1024

T = TypeVar("T")


class StrictJson(AbstractDTO[T]):
    """`dto=StrictJson[SomeStruct]` on a handler with `data: JSONBody[SomeStruct]`."""

    def decode_bytes(self, value: bytes) -> Any:
        require_json(self.asgi_connection.headers.get("content-type"))
        return read_json(value, self.model_type)

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: object = None
    ) -> None:
        """Nothing to prepare: msgspec knows the type."""

    @classmethod
    def is_supported_model_type_field(cls, field_definition: FieldDefinition) -> bool:
        return field_definition.name == "data"

    @classmethod
    def create_openapi_schema(
        cls,
        field_definition: FieldDefinition,
        handler_id: str,  # noqa: ARG003
        schema_creator: SchemaCreator,
    ) -> Reference | Schema:
        return schema_creator.for_field_definition(field_definition)

    @classmethod
    def generate_field_definitions(
        cls,
        model_type: type[Any],  # noqa: ARG003
    ) -> Generator[DTOFieldDefinition, None, None]:
        yield from ()

    @classmethod
    def detect_nested_field(
        cls,
        field_definition: FieldDefinition,  # noqa: ARG003
    ) -> bool:
        return False


class NoFields(RequestStruct, frozen=True, kw_only=True):
    """What a body may say where none is expected."""


async def refuse_unexpected_body(request: Request[Any, Any, Any]) -> None:
    """Before any handler that takes no body: what one says there would be left out in silence. Nobody looks
    for one in what only reads."""
    if request.method in ("GET", "HEAD") or request.route_handler.parsed_data_field is not None:
        return
    body = (await request.body()).strip()
    if body not in (b"", b"null"):
        read_json(body, NoFields)


class Sent(Generic[T]):
    """A body as it came. Decoding takes its time: whoever handles the request says where that is spent."""

    def __init__(self, body: bytes, kind: type[T]) -> None:
        self._body = body
        self._kind = kind

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self._body)

    def read(self) -> T:
        """Raises as `read_json`."""
        return read_json(self._body, self._kind)


class LateJson(StrictJson[T]):
    """`dto=LateJson[SomeStruct]` on a handler with `data: JSONBody[Sent[SomeStruct]]`: nothing is decoded
    before the handler runs, so a large body does not hold up the event loop."""

    def decode_bytes(self, value: bytes) -> Sent[Any]:
        require_json(self.asgi_connection.headers.get("content-type"))
        return Sent(value, self.model_type)

    @classmethod
    def create_openapi_schema(
        cls,
        field_definition: FieldDefinition,
        handler_id: str,  # noqa: ARG003
        schema_creator: SchemaCreator,
    ) -> Reference | Schema:
        return schema_creator.for_field_definition(field_definition.inner_types[0])


def require_json(content_type: str | None) -> None:
    """Accept JSON and a body without a type; anything else is an UnsupportedMediaType."""
    media_type = (content_type or "application/json").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise UnsupportedMediaType(f"The body must be application/json, not {media_type[:100]}.")


def read_json(body: bytes, kind: type[T]) -> T:
    """Decode `body`. Raises InvalidRequest that names each wrong field, or MalformedBody if it is no JSON."""
    try:
        try:
            return decode(body, kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _refuse_half_pairs(body)
            raise malformed(f"The body is not valid JSON: {_first_line(error)}") from None
    except RecursionError:
        raise malformed("The body is nested too deeply.") from None


def _refuse_half_pairs(body: bytes) -> None:
    if (path := find_half_pair(body)) is not None:
        raise InvalidRequest.of([FieldError(path[:300], "Holds half of a surrogate pair, which is no text.")])


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
