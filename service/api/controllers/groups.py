"""/v1/groups: submit (see submits), check (see checks), list, read, change, cancel, hold."""

from __future__ import annotations

from typing import Annotated

from litestar import Controller, delete, get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from service.api.bells import Bells
from service.api.body import StrictJson
from service.api.controllers.checks import Checks
from service.api.controllers.submits import Submits
from service.api.deps import Caller, PartsDep
from service.api.group_now import answer_of
from service.api.schemas.group_answer import GroupAnswer, GroupPageAnswer, brief_answer
from service.api.schemas.group_filter import LabelTexts, Limit, Text, labels_of
from service.api.schemas.group_paging import cursor_of, key_of
from service.api.schemas.group_patch import GroupPatch, change_of
from service.api.schemas.ids import group_id_of
from service.api.schemas.sealed_cursor import CursorText
from service.domain.status import Status
from service.operations import cancel, hold
from service.operations import read_groups as reads
from service.operations.change_group import change_group
from service.operations.positions import find_positions
from service.points import reach
from service.store.group_lists import GroupFilter, ListOrder


class GroupsController(Submits, Checks, Controller):
    path = "/v1/groups"
    tags = ["groups"]

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
        return answer_of(group_id_of(group_id), parts, request.user)

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
        return answer_of(public_id, parts, request.user)

    @patch("/{group_id:str}", operation_id="update-group", dto=StrictJson[GroupPatch], sync_to_thread=True)
    def update_group(
        self,
        group_id: FromPath[str],
        data: JSONBody[GroupPatch],
        parts: PartsDep,
        request: Caller,
    ) -> GroupAnswer:
        """Change the priority, time limit or labels of a group that has not ended, within the bounds of its
        queue. A limit that is over at once ends what runs. If its places are kept for another group from a
        date on, only an operator may raise its limit beyond that (409)."""
        public_id = group_id_of(group_id)
        changed = change_group(
            parts.engine,
            public_id,
            change=change_of(data),
            principal=request.user,
            now=parts.clock.now(),
        )
        reach("api.group-changed")
        if changed.has_changed:
            parts.bells.wake_cycles()
        parts.bells.ring_dispatchers(changed.pool_ids)
        return answer_of(public_id, parts, request.user)

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
        return answer_of(public_id, parts, request.user)

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
        return answer_of(public_id, parts, request.user)


def _ring(cancelling: cancel.Cancelling, bells: Bells) -> None:
    """The cycle frees what was reserved and re-orders; the dispatchers stop the members."""
    reach("api.group-cancelled")
    if cancelling.has_changed:
        bells.wake_cycles()
    bells.ring_dispatchers(cancelling.pool_ids)
