"""POST /v1/groups/check: what a submit would come to."""

from __future__ import annotations

from datetime import datetime

from litestar import post
from litestar.concurrency import sync_to_thread
from litestar.params import JSONBody

from service.api.body import LateJson, Sent
from service.api.deps import Caller, Parts, PartsDep
from service.api.schemas.check import CheckAnswer, check_answer, refused_answer
from service.api.schemas.group import GroupRequest
from service.api.schemas.group_reading import read_group
from service.api.schemas.group_submit import named_as_sent
from service.domain.errors import InvalidRequest
from service.domain.principal import Principal
from service.operations.check_group import check_group
from service.operations.policy import policy_of


class Checks:
    """A handler of the groups' controller."""

    @post("/check", operation_id="check-group", status_code=200, dto=LateJson[GroupRequest])
    async def check_group(
        self, data: JSONBody[Sent[GroupRequest]], parts: PartsDep, request: Caller
    ) -> CheckAnswer:
        """Say what would come of a group if it were submitted now: whether it would be refused, start at once
        or wait, and why. Changes nothing, and keeps nothing for it. It is planned with all that runs and all
        that places are kept for, and with the first 1,000 groups that wait before it in its queue and in the
        others. One after the other; 429 if too many ask at once."""
        async with parts.checks.turn():
            return await sync_to_thread(_check, data, parts, principal=request.user, now=parts.clock.now())


def _check(data: Sent[GroupRequest], parts: Parts, *, principal: Principal, now: datetime) -> CheckAnswer:
    body = data.read()
    try:
        with named_as_sent([body], is_batch=False):
            check = check_group(
                parts.engine,
                read_group(body),
                principal=principal,
                now=now,
                configuration=parts.configuration,
                policy=policy_of(parts.settings),
            )
    except InvalidRequest as refusal:
        return refused_answer(refusal, now)
    return check_answer(check, now)
