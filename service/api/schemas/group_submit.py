"""What a submission answers, and how its errors and its submit key are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, TypeAlias
from uuid import UUID

import msgspec
from litestar.params import HeaderParameter

from service.api.schemas.group import BatchRequest, GroupRequest
from service.api.schemas.group_reading import short_path
from service.domain.errors import FieldError, InvalidRequest
from service.domain.principal import Principal
from service.operations.secret_box import SecretBox
from service.store.idempotency import SubmitKey
from service.wire.patterns import IDEMPOTENCY_KEY
from service.wire.values import AnswerStruct

#: The same key and body within the life of the group answer with the group that there is.
IdempotencyKey: TypeAlias = Annotated[
    str | None, HeaderParameter(name="Idempotency-Key", min_length=1, max_length=255, pattern=IDEMPOTENCY_KEY)
]


class SubmittedAnswer(AnswerStruct, frozen=True, kw_only=True):
    id: UUID
    name: str
    queue: str


class BatchAnswer(AnswerStruct, frozen=True, kw_only=True):
    """The groups of a batch, in its order. They exist, and are not admitted yet."""

    groups: list[SubmittedAnswer]


def submit_key(
    key: str | None, body: GroupRequest | BatchRequest, *, principal: Principal, box: SecretBox
) -> SubmitKey | None:
    """The digest is over what the body says, not over how it is spelled, and is keyed: it covers
    secrets."""
    if key is None:
        return None
    said = type(body).__name__.encode() + msgspec.json.encode(body, order="deterministic")
    return SubmitKey(tenant=principal.tenant, owner=principal.user, key=key, body_digest=box.digest(said))


@contextmanager
def named_as_sent(requests: Sequence[GroupRequest], *, is_batch: bool) -> Iterator[None]:
    """Errors name the fields as they were sent: a short form has no `roles[0].count`."""
    try:
        yield
    except InvalidRequest as error:
        errors = [FieldError(_sent_as(each.field, requests, is_batch), each.message) for each in error.errors]
        raise type(error)(error.message, errors=errors) from None


def _sent_as(field: str, requests: Sequence[GroupRequest], is_batch: bool) -> str:
    if not is_batch:
        return field if requests[0].roles else short_path(field)
    prefix, _, rest = field.partition(".")
    index = int(prefix.removeprefix("groups[").removesuffix("]"))
    return field if requests[index].roles else f"{prefix}.{short_path(rest)}"
