"""The application: controllers, dependencies, problem details and what lives as long as it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from litestar import Litestar
from litestar.concurrency import set_asyncio_executor
from litestar.datastructures import State
from litestar.types import ControllerRouterHandler
from redis import Redis
from sqlalchemy import Engine, QueuePool

from service.api.auth import Authentication, KeyRing
from service.api.bells import Bells
from service.api.body import MAX_BODY_BYTES, refuse_unexpected_body
from service.api.boundaries import Boundaries, KnownParameters
from service.api.controllers import document, health, metrics
from service.api.controllers.cohorts import CohortsController
from service.api.controllers.events import EventsController
from service.api.controllers.explanations import ExplanationsController
from service.api.controllers.groups import GroupsController
from service.api.controllers.inventory import InventoryController
from service.api.controllers.keys import KeysController
from service.api.controllers.members import MembersController
from service.api.controllers.nodes import NodesController
from service.api.controllers.policy import PolicyController
from service.api.controllers.preemptions import PreemptionsController
from service.api.controllers.priority_classes import PriorityClassesController
from service.api.controllers.queues import QueuesController
from service.api.controllers.usage import UsageController
from service.api.deps import Parts, dependencies
from service.api.event_hub import EventHub
from service.api.handler_threads import HandlerThreads
from service.api.lane import SubmitLane
from service.api.lifespans import Lifespan, asking, closing, knowing_the_admin, ringing, streaming
from service.api.metrics import RequestTimes, Scrapes, render
from service.api.problems import HANDLERS
from service.api.rates import Rates
from service.api.readiness import Readiness
from service.api.refusals import Refusals
from service.api.turns import Turns
from service.clock import Clock, SystemClock
from service.inventory.client import make_client
from service.operations.configuration import KnownConfiguration
from service.operations.measure import measure
from service.operations.secret_box import open_box
from service.operations.submit import commit_submissions
from service.settings import Settings
from service.store.engine import make_engine
from service.store.pulse import Pulse

#: Checks that may wait for their turn.
MOST_CHECKS = 16

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
    CohortsController,
    PolicyController,
    PriorityClassesController,
    NodesController,
    InventoryController,
    UsageController,
    PreemptionsController,
    KeysController,
)


def create_app(
    settings: Settings,
    *,
    engine: Engine | None = None,
    redis: Redis | None = None,
    clock: Clock | None = None,
) -> Litestar:
    """The ASGI application. What is not given is made from `settings`; an engine of its own is closed
    with it.

    Call it outside of a running event loop: it sets the thread pool, of the size of the database
    pool, that plain-function handlers run in.
    """
    is_own, pulse = engine is None, Pulse(settings.database_url)
    engine = engine or make_engine(
        settings.database_url,
        pool_size=settings.api_pool_size,
        application_name="muster-api",
        pulse=pulse,
    )
    redis, clock = redis or make_client(settings.redis_url), clock or SystemClock()
    ring, bells, refusals = KeyRing(engine), Bells(redis), Refusals()
    hub = EventHub(engine, refusals, most=settings.max_streams, most_each=settings.max_streams_per_user)
    times, readiness = _process_metrics(hub, engine), Readiness(pulse, redis)
    executor = HandlerThreads(settings.api_pool_size)
    set_asyncio_executor(executor)
    box, configuration = open_box(key=settings.secret_key, data=settings.data), KnownConfiguration()
    commit = partial(commit_submissions, engine, box=box, configuration=configuration)
    parts = Parts(
        engine=engine,
        redis=redis,
        bells=bells,
        clock=clock,
        settings=settings,
        key_ring=ring,
        box=box,
        configuration=configuration,
        lane=SubmitLane(commit, ring=bells.wake_cycles),
        checks=Turns(most=MOST_CHECKS),
        request_times=times,
        refusals=refusals,
        scrapes=Scrapes(partial(_measured, engine, redis, clock)),
        readiness=readiness,
        hub=hub,
    )
    lifespans = [
        closing(engine if is_own else None, executor),
        asking(pulse, readiness),
        ringing(bells),
        streaming(hub),
        knowing_the_admin(engine, settings, clock),
    ]
    return _assembled(parts, lifespans, Authentication(ring, Rates(settings, refusals)))


def _assembled(parts: Parts, lifespans: Sequence[Lifespan], authentication: Authentication) -> Litestar:
    """`state` holds what the server around the application needs."""
    return Litestar(
        route_handlers=ROUTES,
        dependencies=dependencies(parts),
        middleware=[Boundaries(), authentication, KnownParameters()],
        state=State({name: getattr(parts, name) for name in ("request_times", "refusals", "hub")}),
        before_request=refuse_unexpected_body,
        exception_handlers=HANDLERS,
        return_dto=None,
        request_max_body_size=MAX_BODY_BYTES,
        openapi_config=None,
        logging_config=None,
        lifespan=list(lifespans),
    )


def _process_metrics(hub: EventHub, engine: Engine) -> RequestTimes:
    times = RequestTimes()
    times.show("muster_streams", "Event streams and followed logs that are open here.", lambda: hub.count)
    times.show(
        "muster_database_connections", "Connections that requests of this process use.", lambda: _used(engine)
    )
    return times


def _used(engine: Engine) -> int:
    pool = engine.pool
    return pool.checkedout() if isinstance(pool, QueuePool) else 0


def _measured(engine: Engine, redis: Redis, clock: Clock) -> bytes:
    now = clock.now()
    return render(measure(engine, redis, now=now), now=now)
