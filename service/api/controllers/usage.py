"""/v1/usage, and how long groups of a queue run"""

from __future__ import annotations

from litestar import Controller, get
from litestar.params import FromPath

from service.api.deps import Caller, EngineDep, PartsDep, PrincipalDep
from service.api.schemas.group_filter import Text
from service.api.schemas.sealed_cursor import CursorText
from service.api.schemas.usage import (
    RuntimesAnswer,
    UsageAnswer,
    UsageLimit,
    runtimes_answer,
    start_of,
    usage_answer,
)
from service.operations.read_usage import get_runtimes, get_usage
from service.store.usage_reads import UsageFilter
from service.wire.amounts import resource_of


class UsageController(Controller):
    path = "/v1"
    tags = ["usage"]

    @get("/usage", operation_id="get-usage", sync_to_thread=True)
    def get_usage(
        self,
        parts: PartsDep,
        request: Caller,
        queue: Text = None,
        tenant: Text = None,
        user: Text = None,
        resource: Text = None,
        cursor: CursorText = None,
        limit: UsageLimit = 100,
    ) -> UsageAnswer:
        """What was used so far, by queue, user and resource: the caller's own, for operators everybody's."""
        wanted = UsageFilter(
            queue=queue,
            tenant=tenant,
            owner=user,
            resource=None if resource is None else resource_of(resource),
        )
        view = get_usage(
            parts.engine,
            wanted,
            principal=request.user,
            start=start_of(cursor, parts.box, now=parts.clock.now()),
            limit=limit,
        )
        return usage_answer(view, parts.box)

    @get("/queues/{queue_name:str}/runtimes", operation_id="get-runtimes", sync_to_thread=True)
    def get_runtimes(
        self,
        engine: EngineDep,
        principal: PrincipalDep,
        queue_name: FromPath[str],
        tenant: Text = None,
        user: Text = None,
    ) -> RuntimesAnswer:
        """How long groups of a user in a queue are likely to run, from those that ended. The user is the
        caller, unless an operator names somebody."""
        return runtimes_answer(
            get_runtimes(engine, queue_name, tenant=tenant, user=user, principal=principal)
        )
