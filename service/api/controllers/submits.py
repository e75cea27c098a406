"""POST /v1/groups and /v1/groups/batch: submit."""

from __future__ import annotations

from litestar import Response, post
from litestar.concurrency import sync_to_thread
from litestar.params import JSONBody

from service.api.body import LateJson, Sent
from service.api.deps import Caller, PartsDep
from service.api.group_now import answer_of
from service.api.schemas.group import BatchRequest, GroupRequest
from service.api.schemas.group_answer import GroupAnswer, group_answer
from service.api.schemas.group_reading import read_group, read_groups
from service.api.schemas.group_submit import (
    BatchAnswer,
    IdempotencyKey,
    SubmittedAnswer,
    named_as_sent,
    submit_key,
)
from service.operations.read_groups import detail_of_new
from service.operations.submission import Submission
from service.operations.submit import submit_groups

#: A group of so many bytes is decoded in less time than it takes to hand it to a thread.
_SMALL = 64 * 1024


class Submits:
    """Handlers of the groups' controller: Litestar wants one for each path."""

    @post(operation_id="submit-group", dto=LateJson[GroupRequest])
    async def submit_group(
        self,
        data: JSONBody[Sent[GroupRequest]],
        parts: PartsDep,
        request: Caller,
        idempotency_key: IdempotencyKey = None,
    ) -> Response[GroupAnswer]:
        """Submit a group. 201 says that it exists; it is not admitted yet. A repetition with the same
        Idempotency-Key and body answers with the same group; with another body, 409."""
        body = data.read() if data.size <= _SMALL else await sync_to_thread(data.read)
        with named_as_sent([body], is_batch=False):
            submitted = await parts.lane.submit(
                Submission(
                    specs=[read_group(body)],
                    principal=request.user,
                    now=parts.clock.now(),
                    key=submit_key(idempotency_key, body, principal=request.user, box=parts.box),
                )
            )
        # What a group waits for may have ended, and with it the group.
        if submitted.is_repeated or submitted.groups[0].spec.after:
            answer = await sync_to_thread(answer_of, submitted.public_ids[0], parts, request.user)
        else:
            answer = group_answer(detail_of_new(submitted.groups[0]), None)
        return Response(answer, headers={"Location": f"/v1/groups/{answer.id}"})

    @post("/batch", operation_id="submit-batch", dto=LateJson[BatchRequest], sync_to_thread=True)
    def submit_batch(
        self,
        data: JSONBody[Sent[BatchRequest]],
        parts: PartsDep,
        request: Caller,
        idempotency_key: IdempotencyKey = None,
    ) -> BatchAnswer:
        """Submit groups together: all or none. If one is refused, the problem names its index and
        field. Their order is the order of submission."""
        body = data.read()
        with named_as_sent(body.groups, is_batch=True):
            specs = read_groups(body.groups)
            submitted = submit_groups(
                parts.engine,
                specs,
                principal=request.user,
                now=parts.clock.now(),
                box=parts.box,
                configuration=parts.configuration,
                key=submit_key(idempotency_key, body, principal=request.user, box=parts.box),
                is_batch=True,
            )
        if not submitted.is_repeated:
            parts.bells.wake_cycles()
        return BatchAnswer(
            groups=[
                SubmittedAnswer(id=public_id, name=spec.name, queue=spec.queue)
                for public_id, spec in zip(submitted.public_ids, specs, strict=True)
            ]
        )
