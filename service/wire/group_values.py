"""What is said of groups, and of what queues and classes let them have."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from service.wire.patterns import CLASS, LABEL
from service.wire.values import ShortText

Priority: TypeAlias = Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]
#: A name that cannot be taken for a number.
ClassName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=63, pattern=CLASS)]
LabelName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, pattern=LABEL)]
Labels: TypeAlias = Annotated[dict[LabelName, ShortText], Meta(max_length=64)]
