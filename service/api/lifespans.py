"""What lives as long as the application: begun before its first request, ended after its last."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager

import structlog
from litestar import Litestar
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.api.bells import Bells
from service.api.event_hub import EventHub
from service.api.readiness import Readiness
from service.clock import Clock
from service.operations.admin_key import admin_key, ensure_admin_key
from service.settings import Settings
from service.store.pulse import Pulse

_ADMIN_KEY_RETRY_SECONDS = 1.0

_log = structlog.get_logger("muster.api")

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]


def closing(engine: Engine | None, executor: ThreadPoolExecutor) -> Lifespan:
    @contextlib.asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        yield
        executor.shutdown(wait=False)
        if engine is not None:
            engine.dispose()

    return lifespan


def asking(pulse: Pulse, readiness: Readiness) -> Lifespan:
    @contextlib.asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        pulse.start()
        yield
        readiness.close()
        await asyncio.to_thread(pulse.stop)

    return lifespan


def ringing(bells: Bells) -> Lifespan:
    @contextlib.asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        bells.start()
        yield
        await asyncio.to_thread(bells.stop)

    return lifespan


def streaming(hub: EventHub) -> Lifespan:
    @contextlib.asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        yield
        await hub.close()

    return lifespan


def knowing_the_admin(engine: Engine, settings: Settings, clock: Clock) -> Lifespan:
    """The first attempt is made before the first request; with PostgreSQL away, others follow."""

    def attempt() -> bool:
        try:
            is_valid = ensure_admin_key(engine, admin_key(settings), now=clock.now())
        except SQLAlchemyError as error:
            _log.warning("admin_key_not_stored", error=type(error).__name__)
            return False
        if not is_valid:
            _log.warning("admin_key_revoked", hint="remove admin.key and start again for a new one")
        return True

    async def keep_trying() -> None:
        while True:
            await asyncio.sleep(_ADMIN_KEY_RETRY_SECONDS)
            if await asyncio.to_thread(attempt):
                return

    @contextlib.asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        trying = None if await asyncio.to_thread(attempt) else asyncio.create_task(keep_trying())
        yield
        if trying is not None:
            trying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await trying

    return lifespan
