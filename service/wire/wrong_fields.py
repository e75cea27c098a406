"""Every value of a body that is not of its type. A decoder stops at the first; here what is wrong is taken
apart until each part that is wrong has its name."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import UnsetType

#: Enough to see what is wrong with a body of thousands of parts.
_MOST = 100


class Wrong(NamedTuple):
    """A path such as `groups[3].env.LR`, what msgspec says of it, and the values that it may have, if they
    can be counted."""

    path: str
    sentence: str
    choices: tuple[str, ...] = ()


def find_wrong_fields(body: bytes, kind: Any, *, first: str) -> list[Wrong]:
    """In the order of the body, at most a hundred. `first`: what msgspec said of the body. Raises as
    msgspec does if the rest of it is no JSON."""
    found = list(islice(_wrong(msgspec.json.decode(body), kind, ""), _MOST))
    return found or [Wrong("", first)]


def _wrong(value: Any, kind: Any, path: str) -> Iterator[Wrong]:
    """Parts first; what is left over is wrong with the whole, such as its length."""
    sentence = _sentence(value, kind)
    if sentence is None:
        return
    has_wrong_part = False
    for each in _in_parts(value, _without_alternatives(kind), path):
        has_wrong_part = True
        yield each
    if not has_wrong_part:
        yield Wrong(path, sentence, _choices(kind))


def _in_parts(value: Any, kind: Any, path: str) -> Iterator[Wrong]:
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from _in_struct(value, kind, path)
    elif isinstance(value, dict) and get_origin(kind) is dict:
        yield from _in_map(value, kind, path)
    elif isinstance(value, list) and get_origin(kind) is list:
        (item,) = get_args(kind)
        for index, each in enumerate(value):
            yield from _wrong(each, item, f"{path}[{index}]")


def _in_struct(value: Mapping[str, Any], kind: type[msgspec.Struct], path: str) -> Iterator[Wrong]:
    fields = _fields(kind)
    for name, each in value.items():
        if name in fields:
            yield from _wrong(each, fields[name].type, _joined(path, name))
        elif kind.__struct_config__.forbid_unknown_fields:
            yield Wrong(_joined(path, name), "Object contains unknown field")
    for name, field in fields.items():
        if field.required and name not in value:
            yield Wrong(_joined(path, name), "Object missing required field")


def _in_map(value: Mapping[str, Any], kind: Any, path: str) -> Iterator[Wrong]:
    name_kind, item = get_args(kind)
    for name, each in value.items():
        at = _joined(path, name[:128]) if name.isprintable() else path
        if (sentence := _sentence(name, name_kind)) is not None:
            yield Wrong(at, sentence, _choices(name_kind))
        else:
            yield from _wrong(each, item, at)


def _sentence(value: Any, kind: Any) -> str | None:
    """What is wrong first, without its place."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        return str(error).partition(" - at ")[0]
    return None


def _choices(kind: Any) -> tuple[str, ...]:
    kind = _without_alternatives(kind)
    if get_origin(kind) is Literal:
        return tuple(map(str, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(str(each.value) for each in kind)
    return ()


@cache
def _fields(kind: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _without_alternatives(kind: Any) -> Any:
    """The one type that says something, of a type with its bounds, or that may be null or unset."""
    while True:
        origin = get_origin(kind)
        if origin is Annotated:
            kind = get_args(kind)[0]
        elif origin in (Union, types.UnionType):
            said = [each for each in get_args(kind) if each not in (types.NoneType, UnsetType)]
            if len(said) != 1:
                return kind
            (kind,) = said
        else:
            return kind


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
