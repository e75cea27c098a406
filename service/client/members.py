"""Members of a group and what they write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from service.client.groups import Group
from service.client.log_following import LogFollower
from service.client.transport import Transport, segment
from service.domain.shape import Scheduling
from service.domain.status import ENDED


class Member(Struct, frozen=True, kw_only=True):
    """One member. `attempt`, `cause` and `message` are those of its unit; `exit_code` is 128 + n
    after signal n."""

    member: int
    role: str
    status: str
    attempt: int
    generation: int | None
    is_held: bool
    node: str | None
    devices: list[int]
    exit_code: int | None
    admitted_at: datetime | None
    ended_at: datetime | None
    cause: str | None
    message: str | None


class MemberPage(Struct, frozen=True, kw_only=True):
    members: list[Member]
    cursor: str | None


_PAGE = 500


class Members:
    """The members of one group."""

    def __init__(self, transport: Transport, group_id: str) -> None:
        self._transport = transport
        self._ask = transport.ask
        self._group_path = f"/v1/groups/{segment(group_id)}"
        self._path = f"{self._group_path}/members"

    def list(self, *, statuses: Sequence[str] = ()) -> Iterator[Member]:
        """Members in the order of their numbers, page by page as they are asked for."""
        query: dict[str, Any] = {"status": list(statuses) or None, "limit": _PAGE}
        while True:
            page = self._ask("GET", self._path, MemberPage, query=query)
            yield from page.members
            if page.cursor is None:
                return
            query["cursor"] = page.cursor

    def get(self, member: int) -> Member:
        return self._ask("GET", f"{self._path}/{member}", Member)

    def cancel(self, member: int) -> Member:
        """End one member of an independent group; a gang's answers with 409."""
        return self._ask("DELETE", f"{self._path}/{member}", Member)

    def logs(
        self,
        member: int,
        *,
        tail: int | None = None,
        attempt: int | None = None,
        generation: int | None = None,
        is_followed: bool = False,
    ) -> Iterator[bytes]:
        """What a member wrote, in pieces: the last `tail` lines or all that is kept, of the newest
        attempt and generation if no other is named. With `is_followed` until its group has ended, also
        over a restart of the server."""
        path = f"{self._path}/{member}/logs"
        asked = {"attempt": attempt, "generation": generation}
        if is_followed:
            log = LogFollower(self._transport, path, asked=asked, has_ended=lambda: self._has_ended(member))
            yield from log.follow(tail=tail)
            return
        query = {"tail": tail} | asked
        offset: int | None = None
        while True:
            answer = self._transport.fetch(path, query=query | {"offset": offset})
            yield answer.content
            offset = int(answer.headers["Muster-Log-Next-Offset"])
            if tail is not None or not answer.content or offset >= int(answer.headers["Muster-Log-Size"]):
                return

    def _has_ended(self, member: int) -> bool:
        """Whether nothing of the member's unit will run again."""
        group = self._ask("GET", self._group_path, Group)
        return group.status in ENDED or (
            group.scheduling == Scheduling.INDEPENDENT and self.get(member).status in ENDED
        )
