"""/v1/groups: submit, list, read, cancel, hold."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from litestar import Controller, Response, delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from service.api.bells import Bells
from service.api.body import StrictJson
from service.api.deps import Caller, Parts, PartsDep
from service.api.schemas.group import BatchRequest, GroupRequest
from service.api.schemas.group_answer import GroupAnswer, GroupPageAnswer, brief_answer, group_answer
from service.api.schemas.group_filter import CursorText, LabelTexts, Limit, Text, labels_of
from service.api.schemas.group_paging import cursor_of, key_of
from service.api.schemas.group_reading import read_group, read_groups
from service.api.schemas.group_submit import (
    BatchAnswer,
    IdempotencyKey,
    SubmittedAnswer,
    named_as_sent,
    submit_key,
)
from service.api.schemas.ids import group_id_of
from service.domain.principal import Principal
from service.domain.status import Status
from service.operations import cancel, hold, submit
from service.operations import read_groups as reads
from service.operations.positions import find_positions
from service.points import reach
from service.store.group_lists import GroupFilter, ListOrder


class GroupsController(Controller):
    path = "/v1/groups"
    tags = ["groups"]

    @post(operation_id="submit-group", dto=StrictJson[GroupRequest], sync_to_thread=True)
    def submit_group(
        self,
        data: JSONBody[GroupRequest],
        parts: PartsDep,
        request: Caller,
        idempotency_key: IdempotencyKey = None,
    ) -> Response[GroupAnswer]:
        """Submit a group. 201 says that it exists; it is not admitted yet. A repetition with the same
        Idempotency-Key and body answers with the same group; with another body, 409."""
        with named_as_sent([data], is_batch=False):
            submitted = submit.submit_groups(
                parts.engine,
                [read_group(data)],
                principal=request.user,
                now=parts.clock.now(),
                box=parts.box,
                configuration=parts.configuration,
                key=submit_key(idempotency_key, data, principal=request.user, box=parts.box),
            )
        if submitted.is_repeated:
            answer = _answer(submitted.public_ids[0], parts, request.user)
        else:
            parts.bells.wake_cycles()
            answer = group_answer(reads.detail_of_new(submitted.groups[0]), None)
        return Response(answer, headers={"Location": f"/v1/groups/{answer.id}"})

    @post("/batch", operation_id="submit-batch", dto=StrictJson[BatchRequest], sync_to_thread=True)
    def submit_batch(
        self,
        data: JSONBody[BatchRequest],
        parts: PartsDep,
        request: Caller,
        idempotency_key: IdempotencyKey = None,
    ) -> BatchAnswer:
        """Submit groups together: all or none. If one is refused, the problem names its index and
        field. Their order is the order of submission."""
        with named_as_sent(data.groups, is_batch=True):
            specs = read_groups(data.groups)
            submitted = submit.submit_groups(
                parts.engine,
                specs,
                principal=request.user,
                now=parts.clock.now(),
                box=parts.box,
                configuration=parts.configuration,
                key=submit_key(idempotency_key, data, principal=request.user, box=parts.box),
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

    @get(operation_id="list-groups", sync_to_thread=True)
    def list_groups(
        self,
        parts: PartsDep,
        request: Caller,
        queue: Text = None,
        status: Annotated[list[Status] | None, QueryParameter(max_items=9)] = None,
        owner: Text = None,
        name: Text = None,
        label: LabelTexts = None,
        waiting: FromQuery[bool | None] = None,
        order: FromQuery[ListOrder | None] = None,
        cursor: CursorText = None,
        limit: Limit = 100,
    ) -> GroupPageAnswer:
        """List groups. `waiting=true`: those of which some members wait, by default in the order in
        which the next cycle considers them; else the newest first. The list of a queue shows other
        owners' waiting groups as position and size only."""
        wanted = GroupFilter(
            queue=queue,
            statuses=tuple(status or ()),
            owner=owner,
            name=name,
            labels=labels_of(label or []),
            is_waiting=bool(waiting),
            order=order or (ListOrder.POSITION if waiting else ListOrder.NEWEST),
        )
        page = reads.list_groups(
            parts.engine, wanted, principal=request.user, after=key_of(cursor, parts.box), limit=limit
        )
        queues = {brief.group.queue_id for brief in page.groups if brief.units.is_waiting}
        positions = find_positions(parts.redis, queues)
        return GroupPageAnswer(
            groups=[
                brief_answer(brief, positions.get(brief.group.id) if brief.units.is_waiting else None)
                for brief in page.groups
            ],
            cursor=cursor_of(page.next_key, parts.box),
        )

    @get("/{group_id:str}", operation_id="get-group", sync_to_thread=True)
    def get_group(self, group_id: FromPath[str], parts: PartsDep, request: Caller) -> GroupAnswer:
        """One group: what it asked for, where it stands, what it holds."""
        return _answer(group_id_of(group_id), parts, request.user)

    @delete("/{group_id:str}", operation_id="cancel-group", status_code=202, sync_to_thread=True)
    def cancel_group(
        self,
        group_id: FromPath[str],
        parts: PartsDep,
        request: Caller,
    ) -> GroupAnswer:
        """Cancel a group. What waits ends at once; what runs is told to stop, has its grace, and is
        Cancelled when its last process is gone. Repeating it, or cancelling what has ended, changes
        nothing."""
        public_id = group_id_of(group_id)
        cancelling = cancel.cancel_group(
            parts.engine, public_id, principal=request.user, now=parts.clock.now()
        )
        _ring(cancelling, parts.bells)
        return _answer(public_id, parts, request.user)

    @post("/{group_id:str}/hold", operation_id="hold-group", status_code=200, sync_to_thread=True)
    def hold_group(
        self,
        group_id: FromPath[str],
        parts: PartsDep,
        request: Caller,
    ) -> GroupAnswer:
        """Nothing of the group is admitted until it is released; what runs of it goes on."""
        public_id = group_id_of(group_id)
        hold.hold_group(parts.engine, public_id, principal=request.user, now=parts.clock.now())
        reach("api.group-held")
        parts.bells.wake_cycles()
        return _answer(public_id, parts, request.user)

    @post("/{group_id:str}/release", operation_id="release-group", status_code=200, sync_to_thread=True)
    def release_group(
        self,
        group_id: FromPath[str],
        parts: PartsDep,
        request: Caller,
    ) -> GroupAnswer:
        """A held group may be admitted again, at its old place."""
        public_id = group_id_of(group_id)
        hold.release_group(parts.engine, public_id, principal=request.user, now=parts.clock.now())
        reach("api.group-released")
        parts.bells.wake_cycles()
        return _answer(public_id, parts, request.user)


def _answer(public_id: UUID, parts: Parts, principal: Principal) -> GroupAnswer:
    detail = reads.get_group(parts.engine, public_id, principal=principal)
    is_waiting = detail.units.is_waiting
    positions = find_positions(parts.redis, [detail.group.queue_id]) if is_waiting else {}
    return group_answer(detail, positions.get(detail.group.id))


def _ring(cancelling: cancel.Cancelling, bells: Bells) -> None:
    """The cycle frees what was reserved and re-orders; the dispatchers stop the members."""
    reach("api.group-cancelled")
    if cancelling.has_changed:
        bells.wake_cycles()
    bells.ring_dispatchers(cancelling.pool_ids)
