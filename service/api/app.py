"""The application: controllers, dependencies, problem details and what lives as long as it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from functools import partial

import structlog
from litestar import Litestar
from litestar.concurrency import set_asyncio_executor, sync_to_thread
from litestar.datastructures import State
from litestar.types import ControllerRouterHandler
from redis import Redis
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.api.auth import Authentication, KeyRing
from service.api.bells import Bells
from service.api.boundaries import Boundaries
from service.api.controllers import document, health, metrics
from service.api.controllers.events import EventsController
from service.api.controllers.explanations import ExplanationsController
from service.api.controllers.groups import GroupsController
from service.api.controllers.inventory import InventoryController
from service.api.controllers.keys import KeysController
from service.api.controllers.members import MembersController
from service.api.controllers.nodes import NodesController
from service.api.controllers.queues import QueuesController
from service.api.deps import dependencies
from service.api.event_hub import EventHub
from service.api.metrics import RequestTimes, Scrapes, render
from service.api.problems import HANDLERS
from service.clock import Clock, SystemClock
from service.inventory.client import make_client
from service.operations.admin_key import admin_key, ensure_admin_key
from service.operations.configuration import KnownConfiguration
from service.operations.measure import measure
from service.operations.secret_box import open_box
from service.settings import Settings
from service.store.engine import make_engine

#: Batches of groups are large; anything beyond this is refused before it is read.
MAX_BODY_BYTES = 16 * 1024 * 1024
_ADMIN_KEY_RETRY_SECONDS = 1.0

#: Every controller and handler of the API.
ROUTES: tuple[ControllerRouterHandler, ...] = (
    health.get_health,
    health.get_readiness,
    metrics.get_metrics,
    document.get_openapi,
    GroupsController,
    ExplanationsController,
    EventsController,
    MembersController,
    QueuesController,
    NodesController,
    InventoryController,
    KeysController,
)

#: What handlers may ask for by name, besides the principal.
PARTS = (
    "engine",
    "redis",
    "bells",
    "clock",
    "settings",
    "key_ring",
    "box",
    "configuration",
    "request_times",
    "scrapes",
    "hub",
)

_log = structlog.get_logger("muster.api")


def create_app(
    settings: Settings,
    *,
    engine: Engine | None = None,
    redis: Redis | None = None,
    clock: Clock | None = None,
) -> Litestar:
    """The ASGI application. What is not given is made from `settings` and closed with it.

    Call it outside of a running event loop: it sets the thread pool, of the size of the database
    pool, that plain-function handlers run in.
    """
    own_engine = engine is None
    engine = engine or make_engine(
        settings.database_url, pool_size=settings.api_pool_size, application_name="muster-api"
    )
    redis = redis or make_client(settings.redis_url)
    clock = clock or SystemClock()
    ring, bells = KeyRing(engine), Bells(redis)
    hub = EventHub(engine, most=settings.max_streams)
    executor = ThreadPoolExecutor(settings.api_pool_size, thread_name_prefix="handler")
    set_asyncio_executor(executor)
    parts = {
        "engine": engine,
        "redis": redis,
        "bells": bells,
        "clock": clock,
        "settings": settings,
        "key_ring": ring,
        "box": open_box(key=settings.secret_key, data=settings.data),
        "configuration": KnownConfiguration(),
        "request_times": RequestTimes(),
        "scrapes": Scrapes(partial(_measured, engine, redis, clock)),
        "hub": hub,
    }
    return Litestar(
        route_handlers=ROUTES,
        dependencies=dependencies(parts),
        middleware=[Boundaries(), Authentication(ring)],
        state=State({"request_times": parts["request_times"]}),
        exception_handlers=HANDLERS,
        return_dto=None,
        request_max_body_size=MAX_BODY_BYTES,
        openapi_config=None,
        logging_config=None,
        lifespan=[
            _closing(engine if own_engine else None, executor),
            _ringing(bells),
            _streaming(hub),
            _knowing_the_admin(engine, settings, clock),
        ],
    )


def _measured(engine: Engine, redis: Redis, clock: Clock) -> bytes:
    now = clock.now()
    return render(measure(engine, redis, now=now), now=now)


Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]


def _closing(engine: Engine | None, executor: ThreadPoolExecutor) -> Lifespan:
    @contextlib.asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        yield
        executor.shutdown(wait=False)
        if engine is not None:
            engine.dispose()

    return lifespan


def _ringing(bells: Bells) -> Lifespan:
    @contextlib.asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        bells.start()
        yield
        await sync_to_thread(bells.stop)

    return lifespan


def _streaming(hub: EventHub) -> Lifespan:
    @contextlib.asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        yield
        await hub.close()

    return lifespan


def _knowing_the_admin(engine: Engine, settings: Settings, clock: Clock) -> Lifespan:
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
            if await sync_to_thread(attempt):
                return

    @contextlib.asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        trying = None if await sync_to_thread(attempt) else asyncio.create_task(keep_trying())
        yield
        if trying is not None:
            trying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await trying

    return lifespan
