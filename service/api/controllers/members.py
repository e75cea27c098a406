"""/v1/groups/{id}/members: who they are, where they are, what they wrote."""

from __future__ import annotations

from typing import Annotated

from litestar import Controller, Response, delete, get
from litestar.concurrency import sync_to_thread
from litestar.enums import MediaType
from litestar.params import FromPath, FromQuery, QueryParameter

from service.api.deps import BellsDep, ClockDep, EngineDep, EventHubDep, PrincipalDep, SettingsDep
from service.api.log_stream import LogReader, follow_log
from service.api.schemas.group_filter import Limit
from service.api.schemas.ids import group_id_of
from service.api.schemas.member import MemberAnswer, MemberPageAnswer, member_answer
from service.api.streams import TypedStream
from service.domain.status import Status
from service.operations import cancel
from service.operations import read_members as reads
from service.operations.member_logs import LONGEST_READ_BYTES
from service.points import reach
from service.wire.patterns import MEMBER_CURSOR

_TEXT = "text/plain"
#: A member's number in an address. More digits than an int4 has would be nobody's.
Cursor = Annotated[str | None, QueryParameter(pattern=MEMBER_CURSOR)]
Number = Annotated[int | None, QueryParameter(ge=1, le=2_000_000_000)]


class MembersController(Controller):
    path = "/v1/groups/{group_id:str}/members"
    tags = ["groups"]

    @get(operation_id="list-members", sync_to_thread=True)
    def list_members(
        self,
        group_id: FromPath[str],
        engine: EngineDep,
        principal: PrincipalDep,
        status: Annotated[list[Status] | None, QueryParameter(max_items=9)] = None,
        cursor: Cursor = None,
        limit: Limit = 100,
    ) -> MemberPageAnswer:
        """Members in the order of their numbers, which count through the roles."""
        page = reads.list_members(
            engine,
            group_id_of(group_id),
            principal=principal,
            first=int(cursor or 0),
            limit=limit,
            statuses=status or (),
        )
        return MemberPageAnswer(
            members=[member_answer(member) for member in page.members],
            cursor=None if page.next_member is None else str(page.next_member),
        )

    @get("/{member:int}", operation_id="get-member", sync_to_thread=True)
    def get_member(
        self, group_id: FromPath[str], member: FromPath[int], engine: EngineDep, principal: PrincipalDep
    ) -> MemberAnswer:
        """One member."""
        return member_answer(
            reads.get_member(engine, group_id_of(group_id), member=member, principal=principal)
        )

    @delete("/{member:int}", operation_id="cancel-member", status_code=202, sync_to_thread=True)
    def cancel_member(
        self,
        group_id: FromPath[str],
        member: FromPath[int],
        engine: EngineDep,
        bells: BellsDep,
        clock: ClockDep,
        principal: PrincipalDep,
    ) -> MemberAnswer:
        """Cancel one member of an independent group; 409 for a gang, whose members need each other."""
        public_id = group_id_of(group_id)
        done = cancel.cancel_member(engine, public_id, member=member, principal=principal, now=clock.now())
        reach("api.member-cancelled")
        if done.has_changed:
            bells.wake_cycles()
        bells.ring_dispatchers(done.pool_ids)
        return member_answer(reads.get_member(engine, public_id, member=member, principal=principal))

    @get("/{member:int}/logs", operation_id="get-member-logs", media_type=MediaType.TEXT)
    async def get_member_logs(
        self,
        group_id: FromPath[str],
        member: FromPath[int],
        engine: EngineDep,
        hub: EventHubDep,
        settings: SettingsDep,
        principal: PrincipalDep,
        offset: Annotated[int, QueryParameter(ge=0, le=1 << 60)] = 0,
        limit: Annotated[int, QueryParameter(ge=1, le=LONGEST_READ_BYTES)] = LONGEST_READ_BYTES,
        tail: Annotated[int | None, QueryParameter(ge=0, le=10_000)] = None,
        attempt: Number = None,
        generation: Number = None,
        follow: FromQuery[bool] = False,
    ) -> str:
        """What a member wrote, standard output and error together, as it wrote it. From byte `offset`
        at most `limit` bytes, or the last `tail` lines; `Muster-Log-Next-Offset` says where to go on.
        By default the newest attempt and generation. `follow=true` goes on until the group ends, through
        restarts."""
        reader = LogReader(
            engine, settings.data, group_id_of(group_id), member, principal, attempt, generation
        )
        target = await sync_to_thread(reader.find)
        if tail is None:
            part = await sync_to_thread(reader.read, target, offset, limit)
        else:
            part = await sync_to_thread(reader.tail, target, tail)
        if follow:
            listener = hub.join(target.group_id, after=target.last_event_id, owner=principal, is_bell=True)
            content = follow_log(hub, listener, reader, target, offset=part.start)
            return TypedStream(content, media_type=_TEXT)  # type: ignore[return-value]
        headers = {
            "Muster-Log-Attempt": str(target.attempt),
            "Muster-Log-Generation": str(target.generation),
            "Muster-Log-Next-Offset": str(part.next_offset),
            "Muster-Log-Size": str(part.size),
        }
        return Response(part.content, media_type=_TEXT, headers=headers)  # type: ignore[return-value]
