"""The client of the HTTP API: groups here, everything else as parts of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from service.client.address import Address, find_address
from service.client.checks import Check, refused
from service.client.cohorts import Cohorts
from service.client.errors import ApiError
from service.client.events import Events
from service.client.explanations import Forecast, Position, Reasons
from service.client.groups import Batch, Group, GroupBrief, GroupPage, Submitted
from service.client.inventory import Audit, Inventory
from service.client.keys import Keys
from service.client.members import Members
from service.client.nodes import Nodes
from service.client.policy import Policy
from service.client.preemptions import Preemptions
from service.client.priority_classes import PriorityClasses
from service.client.queues import Queues
from service.client.transport import ANSWER_SECONDS, Transport, segment
from service.client.usage import Runtimes, Usage, UsagePage

_PAGE = 200
#: The largest: each page has the server add up anew.
_USAGE_PAGE = 10_000
_UNPROCESSABLE = 422


class _Ready(Struct, frozen=True):
    status: str


class Client:
    """Answers are typed; errors are ApiError, Unreachable and Unintelligible.

    A server may be silent for `answer_seconds`. Requests that may be repeated are, when a connection breaks,
    unless the client is not patient; a submit always carries a key of its
    own, so a repeated one makes no second group. Not to be shared between threads.
    """

    def __init__(
        self,
        address: Address | None = None,
        *,
        answer_seconds: float = ANSWER_SECONDS,
        is_patient: bool = True,
    ) -> None:
        self.address = address or find_address(os.environ)
        self._transport = Transport(self.address, answer_seconds=answer_seconds, is_patient=is_patient)
        self._ask = self._transport.ask
        self.queues = Queues(self._transport)
        self.cohorts = Cohorts(self._transport)
        self.policy = Policy(self._transport)
        self.priority_classes = PriorityClasses(self._transport)
        self.nodes = Nodes(self._transport)
        self.preemptions = Preemptions(self._transport)
        self.keys = Keys(self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def ready(self) -> None:
        """Return if the server and its stores answer; else raise ApiError or Unreachable."""
        self._ask("GET", "/readyz", _Ready, is_repeatable=False)

    def inventory(self) -> Inventory:
        """Capacity, held, free and lost, node by node, as the ledger has it now."""
        return self._ask("GET", "/v1/inventory", Inventory)

    def audit(self) -> Audit:
        """Compare PostgreSQL, the ledger and what runs. For operators."""
        return self._ask("GET", "/v1/inventory/audit", Audit)

    def usage(
        self,
        *,
        queue: str | None = None,
        tenant: str | None = None,
        user: str | None = None,
        resource: str | None = None,
    ) -> Usage:
        """What was used so far: the caller's own, for operators everybody's; all pages, as of
        the first."""
        query = {"queue": queue, "tenant": tenant, "user": user, "resource": resource, "limit": _USAGE_PAGE}
        first = page = self._ask("GET", "/v1/usage", UsagePage, query=query)
        entries = [*page.usage]
        while page.cursor is not None:
            page = self._ask("GET", "/v1/usage", UsagePage, query=query | {"cursor": page.cursor})
            entries += page.usage
        return Usage(as_of=first.as_of, half_life=first.half_life, usage=entries)

    def runtimes(self, queue: str, *, tenant: str | None = None, user: str | None = None) -> Runtimes:
        """How long groups of the caller, or for operators of somebody, are likely to run in a queue."""
        query = {"tenant": tenant, "user": user}
        return self._ask("GET", f"/v1/queues/{segment(queue)}/runtimes", Runtimes, query=query)

    def submit(self, group: Mapping[str, Any], *, key: str | None = None) -> Group:
        """Submit one group. With the `key` of an earlier submit of the same body: answers that group."""
        return self._ask("POST", "/v1/groups", Group, body=group, headers=_submit_key(key))

    def submit_batch(self, groups: Sequence[Mapping[str, Any]], *, key: str | None = None) -> list[Submitted]:
        """Submit groups in their order: all of them or none."""
        body = {"groups": list(groups)}
        return self._ask("POST", "/v1/groups/batch", Batch, body=body, headers=_submit_key(key)).groups

    def check(self, group: Mapping[str, Any]) -> Check:
        """What would come of the group if it were submitted now. Changes nothing. What is no group at all
        would be refused, too."""
        try:
            return self._ask("POST", "/v1/groups/check", Check, body=group)
        except ApiError as error:
            if error.status != _UNPROCESSABLE:
                raise
            return refused(error)

    def list_groups(
        self,
        *,
        queue: str | None = None,
        statuses: Sequence[str] = (),
        owner: str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        is_waiting: bool = False,
    ) -> Iterator[GroupBrief]:
        """Groups that match every filter, page by page as they are asked for.

        The newest first; with `is_waiting` those of which a part waits, in the order in which the next
        cycle considers them.
        """
        query: dict[str, Any] = {
            "queue": queue,
            "status": list(statuses) or None,
            "owner": owner,
            "name": name,
            "label": [f"{label}={value}" for label, value in (labels or {}).items()] or None,
            "waiting": "true" if is_waiting else None,
            "limit": _PAGE,
        }
        while True:
            page = self._ask("GET", "/v1/groups", GroupPage, query=query)
            yield from page.groups
            if page.cursor is None:
                return
            query["cursor"] = page.cursor

    def get(self, group_id: str) -> Group:
        return self._ask("GET", _path(group_id), Group)

    def position(self, group_id: str) -> Position:
        """Where it stands in its queue; 503 while Redis is away."""
        return self._ask("GET", f"{_path(group_id)}/position", Position)

    def reasons(self, group_id: str) -> Reasons:
        """Everything that it waits for; 503 while Redis is away."""
        return self._ask("GET", f"{_path(group_id)}/reasons", Reasons)

    def forecast(self, group_id: str) -> Forecast:
        """When it is likely to start."""
        return self._ask("GET", f"{_path(group_id)}/forecast", Forecast)

    def cancel(self, group_id: str) -> Group:
        """End the group. What runs has its grace; repeating it changes nothing."""
        return self._ask("DELETE", _path(group_id), Group)

    def update(self, group_id: str, changes: Mapping[str, Any]) -> Group:
        """Change `priority`, `time_limit` (None: no limit) or `labels` (all of them) of a group that has not
        ended."""
        return self._ask("PATCH", _path(group_id), Group, body=dict(changes))

    def hold(self, group_id: str) -> Group:
        """Admit nothing of the group until `release`; what runs of it goes on."""
        return self._ask("POST", f"{_path(group_id)}/hold", Group)

    def release(self, group_id: str) -> Group:
        return self._ask("POST", f"{_path(group_id)}/release", Group)

    def members(self, group_id: str) -> Members:
        return Members(self._transport, group_id)

    def events(self, group_id: str) -> Events:
        return Events(self._transport, group_id)


def _path(group_id: str) -> str:
    return f"/v1/groups/{segment(group_id)}"


def _submit_key(key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": key or str(uuid.uuid4())}
