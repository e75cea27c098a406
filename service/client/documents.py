"""Files of YAML or JSON that can be sent: read strictly, with the line of what is wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from service.client.body import check_body
from service.client.errors import FileWrong, Unsendable
from service.client.strict_yaml import Loader

#: What the server takes at once.
_MOST_BYTES = 16 * 1024 * 1024
#: YAML of such a size would be read for a minute and longer.
_MOST_YAML = 4 * 1024 * 1024


class _TwiceInJson(ValueError):
    """A key of an object is there twice."""


def read_text(path: str) -> tuple[str, str]:
    """What to call it, and what it says. Raises FileWrong."""
    name = "standard input" if path == "-" else path
    try:
        if path == "-":
            found = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                found = file.read(_MOST_BYTES + 1)
        if len(found) > _MOST_BYTES:
            raise FileWrong(f"{name} is larger than the {_MOST_BYTES // 1024**2} MiB that the server takes")
        return name, found.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise FileWrong(f"{name} cannot be read: {error}") from None


def parse_documents(text: str, *, name: str) -> list[object]:
    """What can be sent, of one document or several, none of them empty. Raises FileWrong that begins with
    `name`."""
    try:
        documents = _documents(text, name)
        check_body(documents[0] if len(documents) == 1 else documents)
    except RecursionError:
        raise FileWrong(f"{name}: too many values lie in one another") from None
    except Unsendable as error:
        raise FileWrong(f"{name}: {error}") from None
    return documents


def _documents(text: str, name: str) -> list[object]:
    if text.lstrip()[:1] in {"{", "["}:
        try:
            return [json.loads(text, object_pairs_hook=_object)]
        except _TwiceInJson as error:
            raise FileWrong(_say_where_twice(text, name) or f"{name}: {error}") from None
        except ValueError as error:
            json_error = error
        # YAML may begin with a brace too.
        try:
            return _yaml_documents(text)
        except (yaml.YAMLError, ValueError):
            raise FileWrong(f"{name} is no JSON: {json_error}") from None
    try:
        documents = _yaml_documents(text)
    # A ValueError: a number of thousands of digits.
    except (yaml.YAMLError, ValueError) as error:
        raise FileWrong(_say_where(error, name)) from None
    return documents


def _yaml_documents(text: str) -> list[object]:
    if len(text) > _MOST_YAML:
        raise ValueError(f"more than {_MOST_YAML // 1024**2} MiB of it are not read; as JSON they are")
    documents = yaml.load_all(text, Loader=Loader)
    return [document for document in documents if document is not None]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceInJson(f"the key {key!r} is there twice")
        found[key] = value
    return found


def _say_where_twice(text: str, name: str) -> str:
    """Read as YAML, a key that is there twice has a place; empty if it is no YAML."""
    try:
        _yaml_documents(text)
    except yaml.MarkedYAMLError as error:
        return _say_where(error, name)
    except ValueError:
        pass
    return ""


def _say_where(error: Exception, name: str) -> str:
    """What is wrong with a text, with its line and a mark under the place."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"{name} is no YAML: {error}"
    mark = error.problem_mark
    context = f"{error.context}: " if error.context else ""
    said = f"{name}, line {mark.line + 1}, column {mark.column + 1}: {context}{error.problem}"
    snippet = mark.get_snippet(indent=2)
    return f"{said}\n{snippet}" if snippet else said
