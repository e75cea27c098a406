"""`after`: which other groups have to end, and how, before a group may start."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from service.domain.status import Status


class When(StrEnum):
    """How the other group has to end: `ok` is Succeeded, `not_ok` is Failed, `any` is in whatever way.
    A Cancelled group is neither ok nor not ok."""

    OK = "ok"
    NOT_OK = "not_ok"
    ANY = "any"


#: The only status that answers it, of those of which not every one does.
ANSWER = {When.OK: Status.SUCCEEDED, When.NOT_OK: Status.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """One entry of `after`. It names a group by its public id, or, in a batch, an earlier group of the same
    batch by its index. So a group can only name groups that are there before it, and no circle can come
    to be."""

    group: UUID | None = None
    batch_index: int | None = None
    when: When = When.OK
