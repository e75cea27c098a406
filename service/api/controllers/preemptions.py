"""/v1/preemptions: who gave way to whom, by what right, and whether it was of use."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from litestar import Controller, get
from litestar.params import QueryParameter

from service.api.deps import EngineDep, PrincipalDep
from service.api.schemas.group_filter import Limit
from service.api.schemas.preemption import PreemptionPageAnswer, key_of, page_answer
from service.operations.read_preemptions import list_preemptions
from service.wire.patterns import GROUP_ID, RECEIPT_CURSOR


class PreemptionsController(Controller):
    path = "/v1/preemptions"
    tags = ["groups"]

    @get(operation_id="list-preemptions", sync_to_thread=True)
    def list_preemptions(
        self,
        engine: EngineDep,
        principal: PrincipalDep,
        group: Annotated[str | None, QueryParameter(pattern=GROUP_ID)] = None,
        cursor: Annotated[str | None, QueryParameter(pattern=RECEIPT_CURSOR)] = None,
        limit: Limit = 100,
    ) -> PreemptionPageAnswer:
        """Receipts, the newest first; of one group, whether it gave way or others gave way to it, or of all.
        An operator sees all, others those of their own groups."""
        page = list_preemptions(
            engine,
            principal=principal,
            group=None if group is None else UUID(group),
            after=key_of(cursor),
            limit=limit,
        )
        return page_answer(page)
