"""/v1/groups/{id}/events: what happened, as pages or as a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from litestar import Controller, Request, get
from litestar.concurrency import sync_to_thread
from litestar.params import FromPath, QueryParameter

from service.api.deps import EngineDep, EventHubDep, PrincipalDep
from service.api.event_hub import CutOff, EventHub, Listener
from service.api.schemas.event import EventPageAnswer, event_answer, sent_event
from service.api.schemas.group_filter import Limit
from service.api.schemas.ids import group_id_of
from service.api.streams import TypedStream
from service.domain.errors import FieldError, InvalidRequest
from service.operations.read_events import list_group_events
from service.operations.read_groups import get_group_row
from service.wire.patterns import EVENT_CURSOR

#: A comment is sent when nothing happens for so long, so that nobody on the way gives up.
KEEP_ALIVE_SECONDS = 15.0
_STREAM = "text/event-stream"


class EventsController(Controller):
    path = "/v1/groups/{group_id:str}/events"
    tags = ["groups"]

    @get(operation_id="list-events")
    async def list_events(
        self,
        group_id: FromPath[str],
        request: Request[Any, Any, Any],
        engine: EngineDep,
        hub: EventHubDep,
        principal: PrincipalDep,
        cursor: Annotated[str | None, QueryParameter(pattern=EVENT_CURSOR)] = None,
        limit: Limit = 100,
    ) -> EventPageAnswer:
        """The events of a group, oldest first. With `Accept: text/event-stream` the same as a stream,
        which goes on from `Last-Event-ID`; when the group has ended, its last event is `end`. A stream
        that ends without it was cut off: ask again."""
        public_id = group_id_of(group_id)
        if _STREAM in request.headers.get("accept", ""):
            group = await sync_to_thread(get_group_row, engine, public_id, principal=principal)
            after = _last_event_id(request) or int(cursor or 0)
            content = tell_events(
                hub, hub.join(group.id, after=after, owner=principal), is_gang=group.is_gang
            )
            return TypedStream(content, media_type=_STREAM)  # type: ignore[return-value]
        group, rows, following = await sync_to_thread(
            list_group_events, engine, public_id, principal=principal, after=int(cursor or 0), limit=limit
        )
        return EventPageAnswer(
            events=[event_answer(row, is_gang=group.is_gang) for row in rows],
            cursor=None if following is None else str(following),
        )


async def tell_events(hub: EventHub, listener: Listener, *, is_gang: bool) -> AsyncGenerator[bytes]:
    """Server-sent events. Only what is complete says so."""
    yield b": events of this group\n\n"
    try:
        async for rows in hub.listen(listener, patience=KEEP_ALIVE_SECONDS):
            if rows is None:
                yield b": keep-alive\n\n"
            else:
                yield b"".join(sent_event(row, is_gang=is_gang) for row in rows)
    except CutOff:
        return
    yield b"event: end\ndata: {}\n\n"


def _last_event_id(request: Request[Any, Any, Any]) -> int | None:
    text = request.headers.get("last-event-id")
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        error = FieldError("Last-Event-ID", "is not the id of an event")
        raise InvalidRequest(f"Last-Event-ID {error.message}", errors=[error])
    return int(text)
