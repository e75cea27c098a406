"""Is it alive, is it ready."""

from __future__ import annotations

from typing import Literal

from litestar import get

from service.api.auth import PUBLIC
from service.api.deps import ReadinessDep
from service.wire.values import AnswerStruct


class Alive(AnswerStruct, frozen=True, kw_only=True):
    status: Literal["ok"] = "ok"


class Ready(AnswerStruct, frozen=True, kw_only=True):
    status: Literal["ready"] = "ready"


@get("/healthz", operation_id="get-health", tags=["health"], sync_to_thread=False, opt={PUBLIC: True})
def get_health() -> Alive:
    """This process answers. Uses no thread and no other server."""
    return Alive()


@get("/readyz", operation_id="get-readiness", tags=["health"], opt={PUBLIC: True})
async def get_readiness(readiness: ReadinessDep) -> Ready:
    """PostgreSQL and Redis answer; else 503 that names the one that does not."""
    await readiness.check()
    return Ready()
