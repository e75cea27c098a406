"""Query parameters of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from litestar.params import QueryParameter

from service.domain.errors import FieldError, InvalidRequest
from service.wire.patterns import NO_NUL

Text: TypeAlias = Annotated[str | None, QueryParameter(min_length=1, max_length=128, pattern=NO_NUL)]
#: `label=team=vision`, repeated for several; all must hold.
LabelTexts: TypeAlias = Annotated[list[str] | None, QueryParameter(max_items=16)]
Limit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=1000)]


def labels_of(texts: Sequence[str]) -> dict[str, str]:
    """Raises InvalidRequest that names `label`."""
    labels = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals) or "\x00" in text or len(text) > 512:
            error = FieldError("label", "a label is written NAME=VALUE")
            raise InvalidRequest.of([error])
        labels[name] = value
    return labels
