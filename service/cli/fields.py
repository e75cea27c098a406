"""What options say, as the API names it."""

from __future__ import annotations

import re
from collections.abc import Callable

from service.domain.dependency import When

_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")


def priority_of(text: str) -> int | str:
    """A number, or the name of a priority class."""
    return int(text) if _NUMBER.fullmatch(text) else text


def after_of(text: str, find_id: Callable[[str], str]) -> dict[str, str]:
    """`GROUP` or `GROUP:WHEN`. A name may have a colon in it, so only what is a WHEN counts as one."""
    group, _, when = text.rpartition(":")
    if not group or when not in set(When):
        group, when = text, When.OK.value
    return {"group": find_id(group), "when": when}
