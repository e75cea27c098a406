"""msgspec's words for a wrong value, as sentences for people who never saw a type."""

from __future__ import annotations

import re
from collections.abc import Sequence

from service.wire.patterns import DURATION, TOLD

_TYPE = re.compile(r"^Expected `(?P<wanted>[a-z |]+)`(?:, got `(?P<sent>[a-z]+)`)?$")
_BOUND = re.compile(r"^Expected `(?:int|float)[ |a-z]*` (?P<sign>[<>]=?) (?P<bound>[-+.e0-9]+)$")
_LENGTH = re.compile(
    r"^Expected `(?P<kind>str|array|object)[ |a-z]*` of length (?P<sign>[<>]=) (?P<bound>[0-9]+)$"
)
_CHOICE = re.compile(r"^Invalid enum value (?P<value>.*)$", re.DOTALL)

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a map",
    "null": "null",
}
_SIGNS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_PIECES = {"str": "character", "array": "entry", "object": "entry"}
_TOLD = {f"matching regex {pattern!r}": sentence for pattern, sentence in TOLD.items()}


def readable(message: str, *, choices: Sequence[str] = ()) -> str:
    """A sentence with its full stop. `choices`: all values that there may be, if they can be counted. What is
    not known here stays as msgspec says it."""
    if " matching regex " in message:
        return _TOLD.get(message[message.index("matching regex ") :], message)
    if message.startswith("Object contains unknown field"):
        return "There is no such field."
    if message.startswith("Object missing required field"):
        return "This field is needed."
    if match := _TYPE.match(message):
        return _of_type(match["wanted"].split(" | "), match["sent"])
    if match := _LENGTH.match(message):
        return _of_length(match["kind"], match["sign"], int(match["bound"]))
    if match := _BOUND.match(message):
        return f"Must be {_SIGNS[match['sign']]} {float(match['bound']):.15g}."
    if match := _CHOICE.match(message):
        return _of_choice(match["value"], choices)
    return message if message.endswith(".") else f"{message}."


def _of_choice(value: str, choices: Sequence[str]) -> str:
    if not choices:
        return f"{value} is none of the values that it may have."
    return f"Must be {'one of ' if len(choices) > 2 else ''}{_either(choices)}, not {value}."


def _either(choices: Sequence[str]) -> str:
    return " or ".join(part for part in (", ".join(choices[:-1]), choices[-1]) if part)


def _of_type(wanted: list[str], sent: str | None) -> str:
    if {"str", "float"} <= set(wanted):
        return TOLD[DURATION]
    kinds = " or ".join(_KINDS.get(kind, kind) for kind in wanted)
    if sent in ("int", "float"):
        # A broken number is a number too.
        return f"Must be {kinds}." if "int" in wanted else f"Must be {kinds}, not a number."
    return f"Must be {kinds}, not {_KINDS[sent]}." if sent in _KINDS else f"Must be {kinds}."


def _of_length(kind: str, sign: str, bound: int) -> str:
    if sign == ">=" and bound == 1:
        return "Must not be empty."
    piece = _PIECES[kind]
    pieces = piece if bound == 1 else "entries" if piece == "entry" else f"{piece}s"
    return f"Must have {_SIGNS[sign]} {bound} {pieces}."
