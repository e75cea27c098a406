"""Request bodies, decoded once and strictly.

Litestar's own path converts leniently ("5" passes for a number) and decodes twice; this reads the
bytes straight into the struct and says which field is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from litestar.dto import AbstractDTO
from litestar.dto.data_structures import DTOFieldDefinition
from litestar.openapi.spec import Reference, Schema
from litestar.typing import FieldDefinition

from service.api.problems import UnsupportedMediaType, malformed
from service.api.sentences import readable
from service.api.wrong_key import find_wrong_key
from service.domain.errors import FieldError, InvalidRequest

if TYPE_CHECKING:
    from litestar._openapi.schema_generation import SchemaCreator

#: Batches of groups are large; anything beyond this is refused before it is read.
MAX_BODY_BYTES = 16 * 1024 * 1024

T = TypeVar("T")

_PLACE = re.compile(r"^(?P<message>.*?)(?: - at (?P<inside>`key` in )?`(?P<path>\$.*)`)?$", re.DOTALL)
_NAMED = re.compile(r"^Object (?:contains unknown|missing required) field `(?P<name>.*)`$", re.DOTALL)


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
    """Decode `body`. Raises InvalidRequest that names the field, or MalformedBody if it is no JSON."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        problem = _with_key(field_error(str(error)), body, kind, sentence=str(error))
        raise InvalidRequest(f"{problem.field or 'The body'}: {problem.message}", errors=[problem]) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise malformed(f"The body is not valid JSON: {_first_line(error)}") from None
    except RecursionError:
        raise malformed("The body is nested too deeply.") from None


def _with_key(problem: FieldError, body: bytes, kind: Any, *, sentence: str) -> FieldError:
    """With the key of a map where msgspec does not tell it."""
    is_key, is_value = " - at `key` in `" in sentence, problem.field.endswith("[...]")
    if not (is_key or is_value):
        return problem
    path = problem.field.removesuffix("[...]")
    key = find_wrong_key(body, kind, f"$.{path}", sentence=sentence)
    return FieldError(f"{path}.{key[:128]}" if key and key.isprintable() else path, problem.message)


def field_error(text: str) -> FieldError:
    """msgspec's sentence, taken apart: "Expected `int`, got `str` - at `$.roles[0].count`"."""
    match = _PLACE.match(text)
    assert match is not None
    message, path = match["message"], (match["path"] or "$").removeprefix("$").removeprefix(".")
    if named := _NAMED.match(message):
        path = f"{path}.{named['name']}" if path else named["name"]
    return FieldError(path[:300], readable(message)[:500])


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
